// One step with hooks around it.
#pragma once

#include <vector>

#include "tutti/runtime/session.h"
#include "tutti/train/hooks.h"

namespace tutti::internal {

// What the caller asked for.
struct StepRequest {
  const Feeds& feeds;
  const std::vector<TensorName>& fetches;
  const std::vector<NodeName>& targets;
  const RunOptions& options;
};

struct StepOutcome {
  std::vector<Tensor> fetches;
  bool stop_requested = false;
};

// 1. before_run of each hook, in order, says what to add. A tensor that several want is fetched once; a feed by two is
//    kInvalidArgument. 2. One run of everything. 3. after_run of each, in the same order. Throws what any of it throws.
StepOutcome run_with_hooks(Session& session, const std::vector<Hook>& hooks, const StepRequest& request);

}  // namespace tutti::internal

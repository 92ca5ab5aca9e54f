// The global step, as hooks look at it.
#pragma once

#include <cstdint>
#include <optional>

#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/session.h"

namespace tutti {

// Fetched with a step it is the value from before or after the step's own update: one says "at least so much". What
// must be exact is read again.
class HookStep {
 public:
  // kFailedPrecondition, naming `hook`, when the graph has no global step.
  void find(Graph& graph, const char* hook);
  // REQUIRES: found.
  TensorName fetch() const { return *step_; }
  std::int64_t read(Session& session) const;
  const std::string& name() const { return step_->name(); }

 private:
  std::optional<Var> step_;
};

}  // namespace tutti

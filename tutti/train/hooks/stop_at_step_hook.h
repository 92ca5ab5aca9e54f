#pragma once

#include <cstdint>
#include <optional>

#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"

namespace tutti {

struct StopAtStepOptions {
  // Exactly one of them.
  std::optional<std::int64_t> num_steps = std::nullopt;  // so many more than the job had when the session was made
  std::optional<std::int64_t> last_step = std::nullopt;  // at this one
};

// Ends the job at a global step.
class StopAtStepHook : public SessionRunHook {
 public:
  // kInvalidArgument unless exactly one is given.
  explicit StopAtStepHook(StopAtStepOptions options);

  void begin(HookContext& context) override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  const std::optional<std::int64_t> num_steps_;
  std::optional<std::int64_t> last_step_;
  HookStep step_;
};

}  // namespace tutti

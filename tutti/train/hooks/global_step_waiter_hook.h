#pragma once

#include <cstdint>

#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"

namespace tutti {

// Lets a worker's first step wait until others have brought the global step so far, so that workers start one after
// the other.
class GlobalStepWaiterHook : public SessionRunHook {
 public:
  // 0 and below: no wait.
  explicit GlobalStepWaiterHook(std::int64_t wait_until_step) : wait_until_step_(wait_until_step) {}

  void begin(HookContext& context) override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  std::optional<RunArgs> before_run(RunContext& context) override;

 private:
  void wait(Session& session);

  const std::int64_t wait_until_step_;
  HookContext* context_ = nullptr;
  Coordinator* coordinator_ = nullptr;  // of the session there is now
  HookStep step_;
  bool started_ = false;
};

}  // namespace tutti

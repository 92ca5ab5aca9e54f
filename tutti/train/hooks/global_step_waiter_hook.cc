#include "tutti/train/hooks/global_step_waiter_hook.h"

#include <chrono>

#include "tutti/train/coordinator.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(500);
constexpr std::int64_t kStepsBetweenLines = 1000;

}  // namespace

void GlobalStepWaiterHook::begin(HookContext& context) {
  context_ = &context;
  started_ = false;
  step_.find(context.graph, "GlobalStepWaiterHook");
}

void GlobalStepWaiterHook::after_create_session(Session&, Coordinator& coordinator) { coordinator_ = &coordinator; }

std::optional<RunArgs> GlobalStepWaiterHook::before_run(RunContext& context) {
  if (!started_ && wait_until_step_ > 0) wait(context.session());
  started_ = true;
  return std::nullopt;
}

void GlobalStepWaiterHook::wait(Session& session) {
  std::int64_t said = 0;
  std::int64_t step = step_.read(session);
  if (step < wait_until_step_) {
    context_->log(str_cat("Waiting for global step ", wait_until_step_, " before starting training."));
  }
  while (step < wait_until_step_) {
    if (step - said > kStepsBetweenLines) {
      context_->log(str_cat("Waiting for global step ", wait_until_step_, " before starting training. Current step is ",
                            step, "."));
      said = step;
    }
    if (coordinator_->wait_for_stop(kBetweenLooks)) {
      throw_if_error(coordinator_->requested_error());
      throw_error(
          cancelled("GlobalStepWaiterHook: a stop was requested at step ", step, ", before step ", wait_until_step_));
    }
    step = step_.read(session);
  }
}

}  // namespace tutti

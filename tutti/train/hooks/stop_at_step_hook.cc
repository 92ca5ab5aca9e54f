#include "tutti/train/hooks/stop_at_step_hook.h"

#include "tutti/train/global_step.h"

namespace tutti {

StopAtStepHook::StopAtStepHook(StopAtStepOptions options)
    : num_steps_(options.num_steps), last_step_(options.last_step) {
  if (!num_steps_ && !last_step_) throw_error(invalid_argument("One of num_steps or last_step must be specified."));
  if (num_steps_ && last_step_) {
    throw_error(invalid_argument("Only one of num_steps (", *num_steps_, ") and last_step (", *last_step_,
                                 ") can be specified."));
  }
}

void StopAtStepHook::begin(HookContext& context) { step_.find(context.graph, "StopAtStepHook"); }

void StopAtStepHook::after_create_session(Session& session, Coordinator&) {
  if (!last_step_) last_step_ = step_.read(session) + *num_steps_;
}

std::optional<RunArgs> StopAtStepHook::before_run(RunContext&) { return RunArgs{.fetches = {step_.fetch()}}; }

void StopAtStepHook::after_run(RunContext& context, const RunValues& values) {
  // The value may be from before the step's own update.
  if (step_value(values.results[0]) + 1 < *last_step_) return;
  if (step_.read(context.session()) >= *last_step_) context.request_stop();
}

}  // namespace tutti

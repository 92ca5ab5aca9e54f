#include "tutti/train/hooks/step_counter_hook.h"

#include <cstdio>
#include <utility>

#include "tutti/train/event_log.h"
#include "tutti/train/global_step.h"

namespace tutti {
namespace {

// A worker may look twice between two updates of a synchronous job; a step that nobody counts stays put for good.
constexpr int kStillBeforeWarning = 20;
constexpr int kWarnings = 5;

SecondOrStepTimer make_timer(const StepCounterOptions& options) {
  if (!options.every_n_secs && !options.every_n_steps) return {std::nullopt, 100};
  return {options.every_n_secs, options.every_n_steps};
}

}  // namespace

StepCounterHook::StepCounterHook(StepCounterOptions options)
    : options_(std::move(options)), timer_(make_timer(options_)) {}

void StepCounterHook::begin(HookContext& context) {
  context_ = &context;
  step_.find(context.graph, "StepCounterHook");
  if (options_.summary_writer) {
    events_ = context.events.over(options_.summary_writer);
  } else if (!options_.output_dir.empty()) {
    events_ = context.events.at(options_.output_dir);
  }
}

std::optional<RunArgs> StepCounterHook::before_run(RunContext&) { return RunArgs{.fetches = {step_.fetch()}}; }

void StepCounterHook::after_run(RunContext& context, const RunValues& values) {
  const std::int64_t stale = step_value(values.results[0]);
  const TimePoint now = context_->clock.now();
  if (timer_.should_trigger_for_step(stale + 1, now)) {
    const std::int64_t step = step_.read(context.session());
    if (timer_.should_trigger_for_step(step, now)) {
      if (const auto elapsed = timer_.update_last_triggered_step(step, now)) tell(*elapsed, step);
    }
  }
  warn_when_still(stale);
}

void StepCounterHook::tell(const SecondOrStepTimer::Elapsed& elapsed, std::int64_t step) {
  if (!(elapsed.secs > 0)) return;  // a clock that stands still has no rates
  const double rate = static_cast<double>(elapsed.steps) / elapsed.secs;
  const std::string tag = step_.name() + "/sec";
  if (events_) events_->add_scalar(tag, static_cast<float>(rate), step);
  char text[32];
  std::snprintf(text, sizeof(text), "%g", rate);
  context_->log(str_cat(tag, ": ", text));
}

void StepCounterHook::warn_when_still(std::int64_t step) {
  still_ = last_step_ == step ? still_ + 1 : 0;
  last_step_ = step;
  if (still_ < kStillBeforeWarning || warnings_ == kWarnings) return;
  still_ = 0;
  ++warnings_;
  context_->log(str_cat("Warning: the global step \"", step_.name(), "\" stays at ", step,
                        ". Give it to Optimizer::minimize or apply_gradients to have it counted."));
}

}  // namespace tutti

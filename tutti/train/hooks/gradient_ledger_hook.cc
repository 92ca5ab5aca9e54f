#include "tutti/train/hooks/gradient_ledger_hook.h"

#include <utility>

#include "tutti/train/global_step.h"

namespace tutti {

GradientLedgerHook::GradientLedgerHook(GradientLedgerOptions options)
    : options_(std::move(options)), timer_(options_.every_n_secs, options_.every_n_steps) {}

void GradientLedgerHook::begin(HookContext& context) {
  context_ = &context;
  step_.find(context.graph, "GradientLedgerHook");
  ledger_.emplace(context.graph, options_.devices);
}

std::optional<RunArgs> GradientLedgerHook::before_run(RunContext&) { return RunArgs{.fetches = {step_.fetch()}}; }

void GradientLedgerHook::after_run(RunContext& context, const RunValues& values) {
  const std::int64_t step = step_value(values.results[0]);
  const TimePoint now = context_->clock.now();
  if (!timer_.should_trigger_for_step(step, now)) return;
  timer_.update_last_triggered_step(step, now);
  say(context.session(), step);
}

void GradientLedgerHook::end(Session& session) { say(session, step_.read(session)); }

void GradientLedgerHook::say(Session& session, std::int64_t step) {
  for (const auto& [worker, counts] : counts_by_worker(ledger_->read(session))) {
    context_->log(str_cat("Gradients of ", printable(worker), " at step ", step, ": ", counts.applied, " applied, ",
                          counts.stale, " stale, ", counts.retried, " retried"));
  }
}

}  // namespace tutti

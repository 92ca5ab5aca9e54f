#include "tutti/train/hooks/summary_saver_hook.h"

#include <utility>

#include "tutti/io/event_writer.h"
#include "tutti/train/event_log.h"
#include "tutti/train/global_step.h"
#include "tutti/train/scaffold.h"

namespace tutti {

SummarySaverHook::SummarySaverHook(SummarySaverOptions options)
    : options_(std::move(options)), timer_(options_.save_secs, options_.save_steps) {
  if ((options_.scaffold != nullptr) == !options_.summary_op.empty()) {
    throw_error(invalid_argument("Exactly one of scaffold or summary_op must be provided."));
  }
}

void SummarySaverHook::begin(HookContext& context) {
  context_ = &context;
  step_.find(context.graph, "SummarySaverHook");
  next_step_.reset();
  if (options_.summary_writer) {
    events_ = context.events.over(options_.summary_writer);
  } else if (!options_.output_dir.empty()) {
    events_ = context.events.at(options_.output_dir);
  }
}

std::vector<TensorName> SummarySaverHook::summaries() const {
  if (!options_.scaffold) return options_.summary_op;
  if (!options_.scaffold->summary_op) return {};
  return {options_.scaffold->summary_op};
}

std::optional<RunArgs> SummarySaverHook::before_run(RunContext&) {
  requested_ = !next_step_ || timer_.should_trigger_for_step(*next_step_, context_->clock.now());
  RunArgs args{.fetches = {step_.fetch()}};
  if (requested_) {
    for (const TensorName& summary : summaries()) args.fetches.push_back(summary);
  }
  return args;
}

void SummarySaverHook::after_run(RunContext& context, const RunValues& values) {
  if (!events_) return;
  std::int64_t step = step_value(values.results[0]) + 1;
  if (requested_) step = step_.read(context.session());
  if (!next_step_) events_->add_session_log({.status = SessionLog::Status::kStart}, step);
  if (requested_) {
    timer_.update_last_triggered_step(step, context_->clock.now());
    for (std::size_t i = 1; i < values.results.size(); ++i) write(values.results[i], step);
  }
  next_step_ = step + 1;
}

void SummarySaverHook::write(const Tensor& summaries, std::int64_t step) {
  if (summaries.dtype() != DType::kString) {
    throw_error(invalid_argument("SummarySaverHook: a summary is a string, not ", summaries.to_string()));
  }
  for (const std::string& summary : summaries.flat<std::string>()) events_->add_summary(summary, step);
}

void SummarySaverHook::end(Session&) {
  if (events_) events_->flush();
}

}  // namespace tutti

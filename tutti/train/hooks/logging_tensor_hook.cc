#include "tutti/train/hooks/logging_tensor_hook.h"

#include <cstdio>
#include <set>

#include "tutti/train/hooks/numpy_text.h"

namespace tutti {

LoggingTensorHook::LoggingTensorHook(LoggingTensorOptions options) : options_(std::move(options)) {
  const bool at_intervals = options_.every_n_iter || options_.every_n_secs;
  if (options_.tensors.empty()) throw_error(invalid_argument("LoggingTensorHook: no tensors are given"));
  if ((options_.every_n_iter && options_.every_n_secs) || (!at_intervals && !options_.at_end)) {
    throw_error(
        invalid_argument("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided."));
  }
  if (options_.every_n_iter && *options_.every_n_iter <= 0) {
    throw_error(invalid_argument("invalid every_n_iter=", *options_.every_n_iter, "."));
  }
  if (at_intervals) timer_.emplace(options_.every_n_secs, options_.every_n_iter);
  std::set<std::string> tags;
  for (const auto& [tag, tensor] : options_.tensors) {
    if (!tags.insert(tag).second) throw_error(invalid_argument("LoggingTensorHook: \"", tag, "\" is there twice"));
    fetches_.push_back(tensor);
  }
}

void LoggingTensorHook::begin(HookContext& context) {
  context_ = &context;
  iteration_ = 0;
  if (timer_) timer_->reset();
}

std::optional<RunArgs> LoggingTensorHook::before_run(RunContext&) {
  requested_ = timer_ && timer_->should_trigger_for_step(iteration_, context_->clock.now());
  if (!requested_) return std::nullopt;
  return RunArgs{.fetches = fetches_};
}

void LoggingTensorHook::after_run(RunContext&, const RunValues& values) {
  if (requested_) say(values.results);
  ++iteration_;
}

void LoggingTensorHook::end(Session& session) {
  if (options_.at_end) say(session.run({}, fetches_));
}

void LoggingTensorHook::say(const std::vector<Tensor>& values) {
  std::optional<SecondOrStepTimer::Elapsed> elapsed;
  if (timer_) elapsed = timer_->update_last_triggered_step(iteration_, context_->clock.now());
  if (options_.formatter) {
    std::map<std::string, Tensor> by_tag;
    for (std::size_t i = 0; i < values.size(); ++i) by_tag[options_.tensors[i].first] = values[i];
    context_->log(options_.formatter(by_tag));
    return;
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    parts.push_back(str_cat(options_.tensors[i].first, " = ", numpy_text(values[i])));
  }
  std::string line = str_join(parts, ", ");
  if (elapsed) {
    char text[48];
    std::snprintf(text, sizeof(text), " (%.3f sec)", elapsed->secs);
    line += text;
  }
  context_->log(line);
}

}  // namespace tutti

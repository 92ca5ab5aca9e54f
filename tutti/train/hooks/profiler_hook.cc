#include "tutti/train/hooks/profiler_hook.h"

#include <utility>

#include "tutti/core/file_system.h"
#include "tutti/distributed/run_metadata.h"
#include "tutti/train/global_step.h"
#include "tutti/train/internal/dataflow.h"
#include "tutti/train/internal/join_path.h"

namespace tutti {

ProfilerHook::ProfilerHook(ProfilerOptions options)
    : options_(std::move(options)), timer_(options_.save_secs, options_.save_steps) {}

void ProfilerHook::begin(HookContext& context) {
  context_ = &context;
  next_step_.reset();
  step_.find(context.graph, "ProfilerHook");
  events_ = context.events.at(options_.output_dir.empty() ? "." : options_.output_dir);
}

std::optional<RunArgs> ProfilerHook::before_run(RunContext&) {
  requested_ = next_step_ && timer_.should_trigger_for_step(*next_step_, context_->clock.now());
  return RunArgs{.fetches = {step_.fetch()}, .trace = requested_};
}

void ProfilerHook::after_run(RunContext& context, const RunValues& values) {
  const std::int64_t stale = step_value(values.results[0]);
  const TimePoint now = context_->clock.now();
  if (!next_step_) timer_.update_last_triggered_step(stale, now);
  std::int64_t step = stale + 1;
  if (requested_) {
    step = step_.read(context.session());
    timer_.update_last_triggered_step(step, now);
    save(step, *values.metadata);
  }
  next_step_ = step + 1;
}

void ProfilerHook::save(std::int64_t step, const RunMetadata& metadata) {
  const std::string path = internal::join_path(options_.output_dir, str_cat("timeline-", step, ".json"));
  context_->log(str_cat("Saving timeline for ", step, " into '", path, "'."));
  const StepStats& stats = metadata.step_stats;
  const std::string trace =
      options_.show_dataflow ? internal::chrome_trace_with_dataflow(stats, context_->graph) : chrome_trace(stats);
  throw_if_error(write_file(context_->files, path, trace));
  events_->add_run_metadata(str_cat("step_", step), run_metadata_bytes(stats));
}

}  // namespace tutti

#include "tutti/train/monitored_training_session.h"

#include <utility>

#include "tutti/train/hooks/checkpoint_saver_hook.h"
#include "tutti/train/hooks/step_counter_hook.h"
#include "tutti/train/hooks/summary_saver_hook.h"

namespace tutti {
namespace {

// What a pair of intervals comes to.
struct Interval {
  std::optional<double> secs;
  std::optional<std::int64_t> steps;
  explicit operator bool() const { return secs || steps; }
};

Interval interval(std::optional<double> secs, std::optional<std::int64_t> steps, const Interval& by_default,
                  const char* what) {
  if (!secs && !steps) return by_default;
  if (secs && !(*secs > 0)) secs.reset();
  if (steps && *steps <= 0) steps.reset();
  if (secs && steps) {
    throw_error(invalid_argument("MonitoredTrainingSession: ", what, "_secs (", *secs, ") and ", what, "_steps (",
                                 *steps, ") are both given"));
  }
  return {secs, steps};
}

std::vector<Hook> chief_hooks(const MonitoredTrainingSessionOptions& options) {
  const Interval saves =
      interval(options.save_checkpoint_secs, options.save_checkpoint_steps, {.secs = 600}, "save_checkpoint");
  const Interval summaries =
      interval(options.save_summaries_secs, options.save_summaries_steps, {.steps = 100}, "save_summaries");
  const std::string& summary_dir = options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
  std::vector<Hook> hooks = options.chief_only_hooks;
  if (!summary_dir.empty() && options.log_step_count_steps > 0) {
    hooks.push_back(StepCounterHook({.every_n_steps = options.log_step_count_steps, .output_dir = summary_dir}));
  }
  if (!summary_dir.empty() && summaries) {
    hooks.push_back(SummarySaverHook({.save_secs = summaries.secs,
                                      .save_steps = summaries.steps,
                                      .output_dir = summary_dir,
                                      .scaffold = options.scaffold}));
  }
  if (!options.checkpoint_dir.empty() && saves) {
    hooks.push_back(CheckpointSaverHook({.checkpoint_dir = options.checkpoint_dir,
                                         .save_secs = saves.secs,
                                         .save_steps = saves.steps,
                                         .scaffold = options.scaffold,
                                         .save_graph_def = options.save_graph_def}));
  }
  return hooks;
}

MonitoredSessionOptions session_options(const MonitoredTrainingSessionOptions& options) {
  MonitoredSessionOptions session;
  if (options.is_chief) session.hooks = chief_hooks(options);
  session.hooks.insert(session.hooks.end(), options.hooks.begin(), options.hooks.end());
  session.stop_grace_period_secs = options.stop_grace_period_secs;
  session.max_wait_secs = options.max_wait_secs;
  return session;
}

std::unique_ptr<SessionCreator> session_creator(Graph& graph, const MonitoredTrainingSessionOptions& options) {
  SessionCreatorOptions creator;
  creator.scaffold = options.scaffold;
  creator.master = options.master;
  creator.config = options.config;
  creator.max_wait_secs = options.max_wait_secs;
  creator.recovery_wait_secs = options.recovery_wait_secs;
  creator.environment = options.environment;
  if (!options.is_chief) return std::make_unique<WorkerSessionCreator>(graph, std::move(creator));
  creator.checkpoint_dir = options.checkpoint_dir;
  creator.fall_back_to_older_checkpoint = options.fall_back_to_older_checkpoint;
  creator.keep_values = options.keep_values;
  creator.fail_on_lost_values = options.fail_on_lost_values;
  return std::make_unique<ChiefSessionCreator>(graph, std::move(creator));
}

MonitoredTrainingSessionOptions with_scaffold(MonitoredTrainingSessionOptions options) {
  if (options.scaffold == nullptr) options.scaffold = std::make_shared<Scaffold>();
  return options;
}

}  // namespace

MonitoredTrainingSession::MonitoredTrainingSession(Graph& graph, MonitoredTrainingSessionOptions options)
    : MonitoredTrainingSession(graph, with_scaffold(std::move(options)), Complete()) {}

MonitoredTrainingSession::MonitoredTrainingSession(Graph& graph, const MonitoredTrainingSessionOptions& options,
                                                   Complete)
    : MonitoredSession(session_creator(graph, options), session_options(options)) {}

}  // namespace tutti

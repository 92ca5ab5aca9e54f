// The session of a training program: `while (!session.should_stop()) session.run({train});`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/train/hooks.h"
#include "tutti/train/monitored_session.h"
#include "tutti/train/scaffold.h"
#include "tutti/train/session_settings.h"

namespace tutti {

// Intervals: of each pair at most one is above zero; when both are zero it is not done at all. What is left out is
// off when the other one is given.
struct MonitoredTrainingSessionOptions {
  std::string master = "";  // "" for the own machine, or "grpc://host:port"
  // The chief restores or initialises the variables, saves and writes summaries; the others wait for it.
  bool is_chief = true;
  // Where checkpoints go and come from; empty: there are none.
  std::string checkpoint_dir = "";
  std::shared_ptr<Scaffold> scaffold = nullptr;  // null: all defaults
  std::vector<Hook> hooks = {};
  std::vector<Hook> chief_only_hooks = {};
  std::optional<double> save_checkpoint_secs = std::nullopt;         // default: 600
  std::optional<std::int64_t> save_checkpoint_steps = std::nullopt;  // default: off
  std::optional<std::int64_t> save_summaries_steps = std::nullopt;   // default: 100
  std::optional<double> save_summaries_secs = std::nullopt;          // default: off
  SessionSettings config = {};
  double stop_grace_period_secs = 120;
  std::int64_t log_step_count_steps = 100;  // how often the speed is said and written; 0: never
  // When the newest checkpoint cannot be read, the one before it is restored, and the log says so. False: the chief
  // ends with the error.
  bool fall_back_to_older_checkpoint = true;
  // A chief that is started again, after it was killed or stopped, goes on with the values that the parameter servers
  // still have. False: it restores the newest checkpoint, or initialises.
  bool keep_values = true;
  // What the chief does when variables of a running job have lost their values (a parameter server was started again)
  // and there is no checkpoint: it initialises those anew, and the log says which. True: it ends with kDataLoss.
  bool fail_on_lost_values = false;
  // For the cluster, for the chief's initialisation, and for a lost task to come back.
  double max_wait_secs = 7200;
  std::string summary_dir = "";  // default: checkpoint_dir
  // graph.pbtxt, and a .meta beside each checkpoint.
  bool save_graph_def = true;
  // Between two looks at whether the chief is done. Default: a little at first, up to a second.
  std::optional<double> recovery_wait_secs = std::nullopt;
  Environment environment = {};
};

// Hooks are called in this order: chief_only_hooks, StepCounter, SummarySaver, CheckpointSaver (on the chief, where
// there is a directory for them), `hooks`.
class MonitoredTrainingSession : public MonitoredSession {
 public:
  // `graph` outlives this. Errors: kInvalidArgument for both of a pair of intervals; what making the session throws.
  explicit MonitoredTrainingSession(Graph& graph, MonitoredTrainingSessionOptions options = {});

 private:
  struct Complete {};  // the options have a scaffold
  MonitoredTrainingSession(Graph& graph, const MonitoredTrainingSessionOptions& options, Complete);
};

}  // namespace tutti

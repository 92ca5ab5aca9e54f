// From a graph to a session whose variables have values: initialised, restored, or waited for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"
#include "tutti/train/environment.h"
#include "tutti/train/session_settings.h"

namespace tutti {

class Saver;

namespace internal {
class Chief;
class ChiefRecord;
enum class Predecessor;
}  // namespace internal

struct SessionManagerOptions {
  std::string master = "";
  SessionSettings config = {};
  Node* local_init_op = nullptr;  // run for each session, when ready_for_local_init_op finds nothing missing
  Feeds local_init_feed_dict = {};
  Output ready_op = {};                 // names of what is missing; empty: nothing is asked
  Output ready_for_local_init_op = {};  // likewise
  // Between two looks at what is not ready. Nothing: a little at first, up to a second.
  std::optional<double> recovery_wait_secs = std::nullopt;
  // Names of global variables without a value; null: values are never kept.
  Output uninitialized = {};
  // For tasks that wait for the chief to say what it does; null: nothing is known of it.
  std::shared_ptr<const internal::ChiefRecord> chief_record = nullptr;
};

// Where variables come from.
struct PrepareOptions {
  Node* init_op = nullptr;  // when there is no checkpoint
  Feeds init_feed_dict = {};
  std::function<void(Session&)> init_fn = nullptr;
  Saver* saver = nullptr;            // null: checkpoints are not looked at
  std::string checkpoint_dir = "";   // the newest one in it that can be read; it is made where it does not exist
  std::string checkpoint_path = "";  // or this one; not both
  // False: when the newest one cannot be read, that is an error.
  bool fall_back_to_older_checkpoint = true;
  // Makes this task the job's chief, and keeps values that variables have from it already; null: there are no others.
  internal::Chief* chief = nullptr;
  // False: only those of this very process are kept; a job that is started again restores or initialises.
  bool keep_values = true;
  // Values that were lost, without a checkpoint to restore them from, are an error instead of being initialised anew.
  bool fail_on_lost_values = false;
  bool wait_for_checkpoint = false;  // until there is one
  double max_wait_secs = 7200;
};

// One thread at a time. Sessions are given to the caller. Everything throws Error; kAborted and kUnavailable when a
// task was lost meanwhile: trying again may help.
class SessionManager {
 public:
  // kInvalidArgument when there is a ready_for_local_init_op without a local_init_op. `graph` outlives this.
  SessionManager(Graph& graph, SessionManagerOptions options, Environment environment = {});

  // The chief's: values of this job are kept; otherwise restored from a checkpoint, else initialised; then ready.
  // Errors: kFailedPrecondition for variables that are still missing, and for a second chief; kDataLoss when there are
  // checkpoints and none can be read, and for values that were lost where options.fail_on_lost_values.
  std::unique_ptr<Session> prepare_session(const PrepareOptions& options);
  // The session, and whether it was restored and is ready. It never initialises (init_op and init_fn are not used).
  std::pair<std::unique_ptr<Session>, bool> recover_session(const PrepareOptions& options);
  // The others': waits until the chief has made the model ready. kDeadlineExceeded, naming the variables that are
  // missing, when that takes longer than `max_wait_secs`.
  std::unique_ptr<Session> wait_for_session(double max_wait_secs);

 private:
  class Countdown;

  std::unique_ptr<Session> open(Duration limit);
  using Paths = std::vector<std::string>;
  bool restore(Session& session, const Paths& checkpoints, const PrepareOptions& options);
  Status restore_one(Session& session, const std::string& path, const PrepareOptions& options);
  // The prefixes that may be restored, the best first; none: there is no checkpoint.
  Paths find_checkpoints(const PrepareOptions& options);
  void initialize(Session& session, const PrepareOptions& options);
  bool keep_values(Session& session, internal::Predecessor before, const Paths& checkpoints,
                   const PrepareOptions& options);
  void replace_lost(Session& session, const std::vector<std::string>& lost, const Paths& checkpoints,
                    const PrepareOptions& options);
  void initialize_variables(Session& session, const std::vector<std::string>& names, const PrepareOptions& options);
  std::string waiting_for(Session* session, const std::string& not_ready, Duration limit);
  // What is missing; empty: nothing.
  std::string run_local_init(Session& session, Duration limit);
  std::string missing(Session& session, const Output& op, Duration limit);
  std::string why_not_ready(std::unique_ptr<Session>& session, Duration limit);
  RunOptions run_options(Duration limit) const;

  Graph& graph_;
  const SessionManagerOptions options_;
  const Environment environment_;
};

}  // namespace tutti

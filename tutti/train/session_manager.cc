#include "tutti/train/session_manager.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tutti/core/cancellation.h"
#include "tutti/core/process_identity.h"
#include "tutti/optim/replica_sync.h"
#include "tutti/train/internal/backoff.h"
#include "tutti/train/internal/chief.h"
#include "tutti/train/internal/on_cancel.h"
#include "tutti/train/internal/preemption.h"
#include "tutti/train/saver.h"
#include "tutti/train/seconds.h"

namespace tutti {
namespace {

constexpr Duration kNoLimit = Duration::zero();
// For the chief: tasks of a job start one after the other, and a wait this short is not worth a line.
constexpr std::chrono::seconds kQuietWait{3};

// A ready_op without names says that all is well by running.
std::vector<std::string> names_of(const Tensor& names) {
  if (names.dtype() != DType::kString) return {};
  const auto flat = names.flat<std::string>();
  return {flat.begin(), flat.end()};
}

std::string name_or_none(const Node* node) { return node == nullptr ? "none" : node->name(); }

}  // namespace

// How much of a wait is left.
class SessionManager::Countdown {
 public:
  Countdown(const Clock& clock, double secs) : clock_(clock), begin_(clock.now()), end_(begin_ + seconds(secs)) {}
  Duration passed() const { return clock_.now() - begin_; }
  // At least a second: zero means no limit, and a step that only asks must get to answer.
  Duration left() const { return std::max<Duration>(end_ - clock_.now(), std::chrono::seconds(1)); }
  bool has(Duration duration) const { return end_ - clock_.now() >= duration; }

 private:
  const Clock& clock_;
  const TimePoint begin_;
  const TimePoint end_;
};

SessionManager::SessionManager(Graph& graph, SessionManagerOptions options, Environment environment)
    : graph_(graph), options_(std::move(options)), environment_(std::move(environment)) {
  if (options_.ready_for_local_init_op && options_.local_init_op == nullptr) {
    throw_error(invalid_argument("SessionManager: a ready_for_local_init_op (", options_.ready_for_local_init_op.name(),
                                 ") needs a local_init_op"));
  }
}

RunOptions SessionManager::run_options(Duration limit) const {
  RunOptions options;
  options.timeout = std::chrono::ceil<std::chrono::milliseconds>(limit);
  options.cancellation = environment_.cancellation;
  return options;
}

std::unique_ptr<Session> SessionManager::open(Duration limit) {
  SessionSettings config = options_.config;
  if (limit != kNoLimit && !config.cluster.create_timeout) {
    config.cluster.create_timeout = std::chrono::ceil<std::chrono::milliseconds>(limit);
  }
  // The caller's own and the environment's: whichever comes first.
  Cancellation* const own = config.cluster.cancellation;
  std::optional<Cancellation> either;
  if (environment_.cancellation != nullptr) {
    config.cluster.cancellation = &either.emplace(*environment_.cancellation);
  }
  const internal::OnCancel on_own(either ? own : nullptr, [&] { either->cancel(own->status()); });
  if (either && own != nullptr && own->cancelled()) throw_error(own->status());
  return open_session(options_.master, graph_, config).value_or_throw();
}

std::string SessionManager::missing(Session& session, const Output& op, Duration limit) {
  if (!op) return "";
  const Result<std::vector<Tensor>> result = session.try_run({}, {op}, {}, run_options(limit));
  if (result.ok()) {
    const std::vector<std::string> names = names_of((*result)[0]);
    return names.empty() ? "" : str_cat("Variables not initialized: ", str_join(names, ", "));
  }
  // An op that reads a variable instead of asking for it says so in its own words.
  const Status& status = result.status();
  const bool uninitialized =
      status.code() == Code::kFailedPrecondition && status.message().find("uninitialized") != std::string::npos;
  if (!uninitialized) throw_error(status.with_context(str_cat("ready op \"", op.node->name(), "\"")));
  return status.message();
}

std::string SessionManager::run_local_init(Session& session, Duration limit) {
  if (options_.local_init_op == nullptr) return "";
  const std::string not_ready = missing(session, options_.ready_for_local_init_op, limit);
  if (!not_ready.empty()) return not_ready;
  session.run(options_.local_init_feed_dict, {}, {options_.local_init_op}, run_options(limit));
  return "";
}

SessionManager::Paths SessionManager::find_checkpoints(const PrepareOptions& options) {
  if (!options.checkpoint_dir.empty() && !options.checkpoint_path.empty()) {
    throw_error(invalid_argument("SessionManager: both checkpoint_dir (", options.checkpoint_dir,
                                 ") and checkpoint_path (", options.checkpoint_path, ") are given"));
  }
  if (options.saver == nullptr) return {};
  if (!options.checkpoint_path.empty()) return {options.checkpoint_path};
  if (options.checkpoint_dir.empty()) return {};
  if (environment_.files->info(options.checkpoint_dir).status().code() == Code::kNotFound) {
    throw_if_error(environment_.files->make_directories(options.checkpoint_dir));
    environment_.say(
        str_cat("Made the directory ", options.checkpoint_dir, ": there was none. Training starts fresh."));
  }
  const Countdown countdown(*environment_.clock, options.max_wait_secs);
  internal::Backoff backoff(options_.recovery_wait_secs ? std::optional(seconds(*options_.recovery_wait_secs))
                                                        : std::nullopt);
  bool said = false;
  while (true) {
    const std::optional<CheckpointState> state =
        read_checkpoint_state(*environment_.files, options.checkpoint_dir, options.saver->latest_filename())
            .value_or_throw();
    if (state) {
      std::vector<std::string> paths(state->all_model_checkpoint_paths.rbegin(),
                                     state->all_model_checkpoint_paths.rend());
      std::erase(paths, state->model_checkpoint_path);
      paths.insert(paths.begin(), state->model_checkpoint_path);
      return paths;
    }
    const Duration pause = backoff.next();
    if (!options.wait_for_checkpoint || !countdown.has(pause)) return {};
    if (!said) environment_.say(str_cat("Waiting for a checkpoint in ", options.checkpoint_dir, "."));
    said = true;
    environment_.wait(pause);
  }
}

Status SessionManager::restore_one(Session& session, const std::string& path, const PrepareOptions& options) {
  const bool listed = options.checkpoint_path.empty();
  if (listed && !checkpoint_exists(*environment_.files, path)) return data_loss("its index file is missing");
  environment_.say(str_cat("Restoring parameters from ", path));
  return options.saver->try_restore(session, path, run_options(kNoLimit));
}

// False: there is no checkpoint.
bool SessionManager::restore(Session& session, const Paths& paths, const PrepareOptions& options) {
  if (paths.empty()) return false;
  if (options.chief != nullptr) options.chief->replacing(session, run_options(kNoLimit));
  Status newest;
  for (const std::string& path : paths) {
    const Status restored = restore_one(session, path, options);
    if (restored.ok()) {
      if (options.checkpoint_path.empty()) {
        // Those of the run before are now this saver's to delete when their time comes, oldest first.
        options.saver->recover_last_checkpoints({paths.rbegin(), paths.rend()});
      }
      return true;
    }
    newest.update(restored);
    if (restored.code() != Code::kDataLoss || !options.fall_back_to_older_checkpoint) throw_error(restored);
    environment_.say(str_cat("The checkpoint ", path, " cannot be read: ", restored.message()));
  }
  throw_error(data_loss("none of the ", paths.size(), " checkpoints of ",
                        options.checkpoint_path.empty() ? options.checkpoint_dir : options.checkpoint_path,
                        " can be read; move them away to train from the beginning. The newest: ", newest.message()));
}

void SessionManager::initialize(Session& session, const PrepareOptions& options) {
  if (options.chief != nullptr) options.chief->replacing(session, run_options(kNoLimit));
  if (options.init_op == nullptr && !options.init_fn && options_.local_init_op == nullptr) {
    throw_error(failed_precondition(
        "Model is not initialized and no init_op, init_fn or local_init_op was given, and no checkpoint"));
  }
  if (options.init_op != nullptr) {
    session.run(options.init_feed_dict, {}, {options.init_op}, run_options(kNoLimit));
  }
  if (options.init_fn) options.init_fn(session);
}

// Whether the variables have the values of this job already, after those that were lost have been replaced. Otherwise
// all are to be restored or initialised.
bool SessionManager::keep_values(Session& session, internal::Predecessor before, const Paths& checkpoints,
                                 const PrepareOptions& options) {
  using internal::Predecessor;
  internal::Chief& chief = *options.chief;
  if (before == Predecessor::kNone || !options_.uninitialized) return false;
  if (before != Predecessor::kSelf && !options.keep_values) return false;
  // The error may come of the values (a loss that is not a number).
  if (before == Predecessor::kFailed && !checkpoints.empty()) return false;
  // An update may have been applied in part.
  const bool whole_updates_only = !graph_.collection(kWholeUpdatesOnly).empty();
  if (whole_updates_only && !checkpoints.empty()) return false;
  const bool another_saved = before != Predecessor::kSelf && options.saver != nullptr && !checkpoints.empty();
  if (another_saved) options.saver->recover_last_checkpoints({checkpoints.rbegin(), checkpoints.rend()});
  const std::vector<std::string> lost =
      names_of(session.run({}, {options_.uninitialized}, {}, run_options(kNoLimit))[0]);
  if (!lost.empty()) {
    replace_lost(session, lost, checkpoints, options);
    return true;
  }
  const std::string earlier =
      chief.predecessor() ? str_cat(" of the earlier chief (", chief.predecessor()->name, ")") : "";
  environment_.say(str_cat("All variables still have the values", earlier, ": training goes on, nothing is restored."));
  return true;
}

void SessionManager::replace_lost(Session& session, const std::vector<std::string>& lost, const Paths& checkpoints,
                                  const PrepareOptions& options) {
  std::set<std::string> devices;
  for (const std::string& name : lost) {
    const Node* variable = graph_.find(name);
    if (variable != nullptr) devices.insert(variable->requested_device());
  }
  const std::string where = str_join(std::vector<std::string>(devices.begin(), devices.end()), ", ");
  const std::string what = str_cat("Lost the values of variables", where.empty() ? "" : " on ", where,
                                   " at about step ", options.chief->last_step(), " (", str_join(lost, ", "), ")");
  if (checkpoints.empty()) {
    if (options.fail_on_lost_values) throw_error(data_loss(what, ", and there is no checkpoint"));
    environment_.say(str_cat(what, ", and there is no checkpoint: they are initialised anew. What they had learned in ",
                             options.chief->last_step(), " steps is gone.",
                             options.init_fn ? " The job's init_fn is not run for them." : ""));
    return initialize_variables(session, lost, options);
  }
  environment_.say(str_cat(what, ": all variables go back to the newest checkpoint."));
  static_cast<void>(restore(session, checkpoints, options));
}

void SessionManager::initialize_variables(Session& session, const std::vector<std::string>& names,
                                          const PrepareOptions& options) {
  std::map<std::string, Node*> initializers;
  for (const Var& variable : global_variables(graph_)) initializers[variable.name()] = variable.initializer();
  std::vector<NodeName> targets;
  for (const std::string& name : names) {
    const auto found = initializers.find(name);
    if (found == initializers.end() || found->second == nullptr) return initialize(session, options);
    targets.emplace_back(found->second);
  }
  session.run(options.init_feed_dict, {}, targets, run_options(kNoLimit));
}

std::unique_ptr<Session> SessionManager::prepare_session(const PrepareOptions& options) {
  std::unique_ptr<Session> session = open(seconds(options.max_wait_secs));
  auto before = internal::Predecessor::kNone;
  std::optional<internal::Chief::Preparing> beating;
  if (options.chief != nullptr) {
    before = options.chief->claim(*session, run_options(kNoLimit));
    beating.emplace(*options.chief, *session);
  }
  const Paths checkpoints = find_checkpoints(options);
  const bool kept = options.chief != nullptr && keep_values(*session, before, checkpoints, options);
  const bool restored = !kept && restore(*session, checkpoints, options);
  if (!kept && !restored) {
    if (!options.checkpoint_dir.empty())
      environment_.say(str_cat("No checkpoint in ", options.checkpoint_dir, ": training starts fresh."));
    initialize(*session, options);
  }
  const std::string how =
      str_cat("Init op: ", name_or_none(options.init_op), ", init fn: ", options.init_fn ? "given" : "none",
              ", local_init_op: ", name_or_none(options_.local_init_op), ", restored: ", restored ? "yes" : "no",
              ", kept: ", kept ? "yes" : "no");
  std::string not_ready = run_local_init(*session, kNoLimit);
  if (!not_ready.empty()) {
    throw_error(failed_precondition("Init operations did not make model ready for local_init. ", how, ". ", not_ready));
  }
  not_ready = missing(*session, options_.ready_op, kNoLimit);
  if (!not_ready.empty()) {
    throw_error(failed_precondition("Init operations did not make model ready. ", how, ". ", not_ready));
  }
  return session;
}

std::pair<std::unique_ptr<Session>, bool> SessionManager::recover_session(const PrepareOptions& options) {
  std::unique_ptr<Session> session = open(seconds(options.max_wait_secs));
  const bool restored = restore(*session, find_checkpoints(options), options);
  std::string not_ready = run_local_init(*session, kNoLimit);
  if (!restored) return {std::move(session), false};
  if (not_ready.empty()) not_ready = missing(*session, options_.ready_op, kNoLimit);
  if (not_ready.empty()) return {std::move(session), true};
  environment_.say(str_cat("Restoring from ",
                           options.checkpoint_dir.empty() ? options.checkpoint_path : options.checkpoint_dir,
                           " did not make model ready. ", not_ready));
  return {std::move(session), false};
}

// A session that lost a task is let go: only a new one can get better.
std::string SessionManager::why_not_ready(std::unique_ptr<Session>& session, Duration limit) {
  try {
    if (session == nullptr) session = open(limit);
    const std::string not_ready = run_local_init(*session, limit);
    return not_ready.empty() ? missing(*session, options_.ready_op, limit) : not_ready;
  } catch (const Error& error) {
    if (!internal::is_preemption(error.status())) throw;
    session.reset();
    return error.status().to_string();
  }
}

// Describes the wait of a task that is not the chief, as far as the chief's record tells. The task's own variables
// matter only once the chief has given all of its own a value.
std::string SessionManager::waiting_for(Session* session, const std::string& not_ready, Duration limit) {
  const std::string unknown = str_cat("Waiting for model to be ready. ", not_ready);
  if (session == nullptr || options_.chief_record == nullptr) return unknown;
  const Result<std::optional<internal::ChiefState>> read = options_.chief_record->read(*session, run_options(limit));
  if (!read.ok()) return unknown;
  if (!*read) {
    return "Waiting for the chief: none has come yet. One task of the job must be started with is_chief = true.";
  }
  const internal::ChiefState& chief = **read;
  const bool gone = process_life(chief.process) == ProcessLife::kGone;
  switch (chief.phase) {
    case internal::ChiefState::Phase::kPreparing:
    case internal::ChiefState::Phase::kReplacing:
      if (gone) return str_cat("Waiting for another chief: ", chief.name, " is gone.");
      return str_cat("Waiting for the chief (", chief.name, ") to initialise or restore the variables.");
    case internal::ChiefState::Phase::kFailed:
    case internal::ChiefState::Phase::kStopped:
      return str_cat("Waiting for the chief to be started again: ", chief.name, " ended with ", chief.error);
    case internal::ChiefState::Phase::kTraining:
      if (gone) return str_cat("Waiting for another chief: ", chief.name, " is gone. ", not_ready);
      return str_cat("Waiting for variables that have no value, although the chief (", chief.name, ") trains. ",
                     not_ready);
    case internal::ChiefState::Phase::kEnded:
      break;
  }
  return str_cat("The job whose chief was ", chief.name, " has ended. Waiting for a new chief. ", not_ready);
}

std::unique_ptr<Session> SessionManager::wait_for_session(double max_wait_secs) {
  const Countdown countdown(*environment_.clock, max_wait_secs);
  internal::Backoff backoff(options_.recovery_wait_secs ? std::optional(seconds(*options_.recovery_wait_secs))
                                                        : std::nullopt);
  std::unique_ptr<Session> session;
  std::string said;
  while (true) {
    const std::string not_ready = why_not_ready(session, countdown.left());
    if (not_ready.empty()) return session;
    const Duration pause = backoff.next();
    if (!countdown.has(pause)) {
      throw_error(deadline_exceeded("Session was not ready after waiting ", max_wait_secs, " secs. ", not_ready));
    }
    const std::string wait = waiting_for(session.get(), not_ready, countdown.left());
    const bool is_news = session == nullptr || countdown.passed() >= kQuietWait;
    if (is_news && wait != said) {
      environment_.say(wait);
      said = wait;
    }
    environment_.wait(pause);
  }
}

}  // namespace tutti

#include "tutti/train/session_manager.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tutti/core/cancellation.h"
#include "tutti/train/internal/backoff.h"
#include "tutti/train/internal/on_cancel.h"
#include "tutti/train/internal/preemption.h"
#include "tutti/train/saver.h"
#include "tutti/train/seconds.h"

namespace tutti {
namespace {

constexpr Duration kNoLimit = Duration::zero();

std::string names_of(const Tensor& names) {
  if (names.dtype() != DType::kString) return "";  // a ready_op without names says that all is well by running
  return str_join(names.flat<std::string>(), ", ");
}

std::string name_or_none(const Node* node) { return node == nullptr ? "none" : node->name(); }

}  // namespace

// How much of a wait is left.
class SessionManager::Countdown {
 public:
  Countdown(const Clock& clock, double secs) : clock_(clock), end_(clock.now() + seconds(secs)) {}
  // At least a second: zero means no limit, and a step that only asks must get to answer.
  Duration left() const { return std::max<Duration>(end_ - clock_.now(), std::chrono::seconds(1)); }
  bool has(Duration duration) const { return end_ - clock_.now() >= duration; }

 private:
  const Clock& clock_;
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
  if (limit != kNoLimit && config.cluster.create_timeout.count() == 0) {
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
    const std::string names = names_of((*result)[0]);
    return names.empty() ? "" : str_cat("Variables not initialized: ", names);
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

std::string SessionManager::find_checkpoint(const PrepareOptions& options) {
  if (!options.checkpoint_path.empty()) return options.checkpoint_path;
  const Countdown countdown(*environment_.clock, options.max_wait_secs);
  internal::Backoff backoff(options_.recovery_wait_secs ? std::optional(seconds(*options_.recovery_wait_secs))
                                                        : std::nullopt);
  bool said = false;
  while (true) {
    const std::optional<std::string> path =
        latest_checkpoint(*environment_.files, options.checkpoint_dir, options.saver->latest_filename())
            .value_or_throw();
    const Duration pause = backoff.next();
    if (path || !options.wait_for_checkpoint || !countdown.has(pause)) return path.value_or("");
    if (!said) environment_.say(str_cat("Waiting for a checkpoint in ", options.checkpoint_dir, "."));
    said = true;
    environment_.wait(pause);
  }
}

std::unique_ptr<Session> SessionManager::restore(const PrepareOptions& options, bool* restored) {
  if (!options.checkpoint_dir.empty() && !options.checkpoint_path.empty()) {
    throw_error(invalid_argument("SessionManager: both checkpoint_dir (", options.checkpoint_dir,
                                 ") and checkpoint_path (", options.checkpoint_path, ") are given"));
  }
  std::unique_ptr<Session> session = open(seconds(options.max_wait_secs));
  *restored = false;
  if (options.saver == nullptr || (options.checkpoint_dir.empty() && options.checkpoint_path.empty())) return session;
  const std::string path = find_checkpoint(options);
  if (path.empty()) return session;
  environment_.say(str_cat("Restoring parameters from ", path));
  options.saver->restore(*session, path, run_options(kNoLimit));
  // Those of the run before are now this saver's to delete when their time comes.
  if (options.checkpoint_path.empty()) {
    const auto state =
        read_checkpoint_state(*environment_.files, options.checkpoint_dir, options.saver->latest_filename())
            .value_or_throw();
    if (state) options.saver->recover_last_checkpoints(state->all_model_checkpoint_paths);
  }
  *restored = true;
  return session;
}

std::unique_ptr<Session> SessionManager::prepare_session(const PrepareOptions& options) {
  bool restored = false;
  std::unique_ptr<Session> session = restore(options, &restored);
  if (!restored) {
    if (options.init_op == nullptr && !options.init_fn && options_.local_init_op == nullptr) {
      throw_error(failed_precondition(
          "Model is not initialized and no init_op, init_fn or local_init_op was given, and no checkpoint"));
    }
    if (options.init_op != nullptr) {
      session->run(options.init_feed_dict, {}, {options.init_op}, run_options(kNoLimit));
    }
    if (options.init_fn) options.init_fn(*session);
  }
  const std::string how =
      str_cat("Init op: ", name_or_none(options.init_op), ", init fn: ", options.init_fn ? "given" : "none",
              ", local_init_op: ", name_or_none(options_.local_init_op), ", restored: ", restored ? "yes" : "no");
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
  bool restored = false;
  std::unique_ptr<Session> session = restore(options, &restored);
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
    if (not_ready != said) environment_.say(str_cat("Waiting for model to be ready. ", not_ready));
    said = not_ready;
    environment_.wait(pause);
  }
}

}  // namespace tutti

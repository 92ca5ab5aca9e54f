#include "tutti/train/monitored_session.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "tutti/train/coordinator.h"
#include "tutti/train/event_log.h"
#include "tutti/train/internal/backoff.h"
#include "tutti/train/internal/hooked_run.h"
#include "tutti/train/internal/live_session.h"
#include "tutti/train/internal/preemption.h"
#include "tutti/train/queue_runner.h"
#include "tutti/train/seconds.h"

namespace tutti {

using internal::is_preemption;
using internal::LiveSession;

class MonitoredSession::Impl {
 public:
  Impl(std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options, bool recovers)
      : creator_(std::move(creator)),
        options_(std::move(options)),
        recovers_(recovers),
        environment_(creator_->environment()),
        graph_(creator_->graph()),
        events_(*environment_.files, *environment_.clock, [this](const std::string& line) { environment_.say(line); }),
        hook_context_{graph_,
                      *environment_.clock,
                      *environment_.files,
                      events_,
                      [this](const std::string& line) { environment_.say(line); },
                      environment_.cancellation,
                      [this](Session& session, const Status& error) { creator_->failed(session, error); }} {
    for (const Hook& hook : options_.hooks) hook->begin(hook_context_);
    make_live();
  }
  ~Impl() { end_quietly(); }

  // What `step(LiveSession&)` returns, with as many sessions as it takes.
  template <typename Step>
  auto with_recovery(const Step& step) {
    check_open();
    while (true) {
      try {
        if (live_ == nullptr) {
          last_run_ = LastRun::kFailed;  // also when no session comes
          make_live();
        }
        if (stop_requested_) throw_error(failed_precondition("Run called even after should_stop requested."));
        last_run_ = LastRun::kFailed;  // until it is known that it did not
        auto value = step(*live_);
        last_run_ = LastRun::kFine;
        failure_ = {};
        failing_since_.reset();
        return value;
      } catch (const Error& error) {
        if (recover_from(error.status())) continue;
        failure_ = error.status();
        throw;
      }
    }
  }

  std::vector<Tensor> run_hooked(LiveSession& live, const internal::StepRequest& request) {
    RunOptions options = request.options;
    if (options.cancellation == nullptr) options.cancellation = environment_.cancellation;
    internal::StepOutcome outcome = internal::run_with_hooks(
        live.session(), options_.hooks, {request.feeds, request.fetches, request.targets, options});
    stop_requested_ = stop_requested_ || outcome.stop_requested;
    return std::move(outcome.fetches);
  }

  bool should_stop();
  void close();
  void end_quietly();

  void request_stop() { stop_requested_ = true; }
  void note_failure(const Status& error) { failure_ = error; }
  bool closed() const { return closed_; }
  Graph& graph() { return graph_; }
  int sessions_created() const { return created_; }
  Session& session() { return live_->session(); }

 private:
  void check_open() const;
  std::unique_ptr<LiveSession> create();
  // The thread that failed first is the cause of what the others met with: its error, where that is to be told instead
  // of `status`; else OK.
  static Status thread_error(LiveSession& live, const Status& status) {
    return is_preemption(status) ? Status() : live.coordinator().requested_error();
  }
  void make_live();
  // False: `status` is what counts. Throws what counts instead.
  bool recover_from(const Status& status);
  void lose(const Status& cause);
  bool may_lose_again(const Status& cause);
  void retire();
  void forget_ended();
  void end_hooks();
  void fail_hooks(LiveSession& live, const Status& error);
  void after_close(LiveSession& live);
  Status stop_live();
  void say_stragglers(const std::vector<std::string>& names);
  Duration grace() const { return seconds(options_.stop_grace_period_secs); }

  const std::unique_ptr<SessionCreator> creator_;
  const MonitoredSessionOptions options_;
  const bool recovers_;
  const Environment environment_;
  Graph& graph_;
  EventWriters events_;
  HookContext hook_context_;

  const int exceptions_at_start_ = std::uncaught_exceptions();
  bool closed_ = false;
  bool stop_requested_ = false;
  enum class LastRun { kFine, kInputEnded, kFailed } last_run_ = LastRun::kFine;
  Status failure_;                          // what the last run that failed did so with, where that was an Error
  std::optional<TimePoint> failing_since_;  // the first of the steps that lost their sessions, one after the other
  internal::Backoff failing_pause_;
  int created_ = 0;
  int frozen_at_ = -1;  // nodes with this id or a higher one are not the session's
  // Sessions that were lost or closed, with threads that have not ended yet: they go when those have.
  std::vector<std::unique_ptr<LiveSession>> retired_;
  std::unique_ptr<LiveSession> live_;  // null: lost, or closed
};

void MonitoredSession::Impl::check_open() const {
  if (closed_) throw_error(failed_precondition("Session is already closed."));
  if (frozen_at_ >= 0 && graph_.id_limit() > frozen_at_) {
    const Node* added = graph_.node_by_id(frozen_at_);
    throw_error(failed_precondition(
        "Graph is finalized and cannot be modified: ", added == nullptr ? std::string("nodes") : added->describe(),
        " came after the session was made"));
  }
}

std::unique_ptr<LiveSession> MonitoredSession::Impl::create() {
  auto live = std::make_unique<LiveSession>(creator_->create_session(), *environment_.clock, environment_.cancellation);
  frozen_at_ = graph_.id_limit();
  try {
    creator_->begin(live->session(), live->coordinator());
    start_queue_runners(graph_, live->session(), live->coordinator());
    for (const Hook& hook : options_.hooks) hook->after_create_session(live->session(), live->coordinator());
  } catch (...) {
    const Status thrown = current_error();
    Status first = thread_error(*live, thrown);
    if (first.code() == Code::kOutOfRange) first = {};  // that a thread's input has ended is no cause of this
    const Status& cause = first.ok() ? thrown : first;
    if (!recovers_ || !is_preemption(cause)) fail_hooks(*live, cause);
    std::vector<std::string> stragglers;
    live->abandon(grace(), &stragglers);
    after_close(*live);
    if (!first.ok()) throw_error(first);
    throw;
  }
  ++created_;
  return live;
}

void MonitoredSession::Impl::make_live() {
  internal::Backoff backoff;
  const TimePoint deadline = environment_.clock->now() + seconds(options_.max_wait_secs);
  while (live_ == nullptr) {
    try {
      live_ = create();
      stop_requested_ = false;
    } catch (const Error& error) {
      const Duration pause = backoff.next();
      if (!recovers_ || !is_preemption(error.status())) throw;
      if (environment_.clock->now() + pause > deadline) {
        throw_error(deadline_exceeded("No session could be made in ", options_.max_wait_secs,
                                      " secs; the last try ended with ", error.status().to_string()));
      }
      environment_.say(str_cat("A task was lost while a session was being made; trying again. ", error.what()));
      environment_.wait(pause);
    }
  }
}

bool MonitoredSession::Impl::recover_from(const Status& status) {
  const Status first = live_ == nullptr ? Status() : thread_error(*live_, status);
  const Status& cause = first.ok() ? status : first;
  if (recovers_ && live_ != nullptr && is_preemption(cause) && may_lose_again(cause)) {
    lose(cause);
    return true;
  }
  if (cause.code() == Code::kOutOfRange) last_run_ = LastRun::kInputEnded;
  if (!first.ok()) throw_error(failure_ = first);
  return false;
}

// A step that fails again in every session is not a task that comes back: it gets pauses, and an end.
bool MonitoredSession::Impl::may_lose_again(const Status& cause) {
  const TimePoint now = environment_.clock->now();
  if (!failing_since_) {
    failing_since_ = now;
    failing_pause_ = internal::Backoff();
    return true;
  }
  if (now - *failing_since_ > seconds(options_.max_wait_secs)) {
    environment_.say(str_cat("No step has worked for ", options_.max_wait_secs, " secs. ", cause.to_string()));
    return false;
  }
  environment_.wait(failing_pause_.next());
  return true;
}

void MonitoredSession::Impl::lose(const Status& cause) {
  environment_.say(str_cat("A task was lost: the session is closed and a new one made. ", cause.to_string()));
  retire();
}

void MonitoredSession::Impl::forget_ended() {
  std::erase_if(retired_, [](const auto& old) { return old->coordinator().running().empty(); });
}

void MonitoredSession::Impl::retire() {
  forget_ended();
  std::vector<std::string> stragglers;
  live_->abandon(grace(), &stragglers);
  after_close(*live_);
  say_stragglers(stragglers);
  if (!stragglers.empty()) retired_.push_back(std::move(live_));
  live_.reset();
}

void MonitoredSession::Impl::say_stragglers(const std::vector<std::string>& names) {
  if (names.empty()) return;
  environment_.say(str_cat("Coordinator stopped with threads still running: ", str_join(names, " ")));
}

bool MonitoredSession::Impl::should_stop() {
  if (closed_ || stop_requested_) return true;
  if (live_ == nullptr) return false;  // the next run makes one
  // In this order: a stop that is seen has its error with it.
  const bool stops = live_->coordinator().should_stop();
  const Status error = live_->coordinator().requested_error();
  if (error.ok()) return stops;
  if (!recovers_ || !is_preemption(error)) {
    last_run_ = error.code() == Code::kOutOfRange ? LastRun::kInputEnded : LastRun::kFailed;
    throw_error(failure_ = error);
  }
  lose(error);
  return false;
}

void MonitoredSession::Impl::end_hooks() {
  if (live_ == nullptr) {
    // Lost. The run that could not get another has told why, and a second long wait would tell nothing new. And one
    // that initialises would be the end of what was trained.
    if (last_run_ == LastRun::kFailed || !creator_->keeps_state()) {
      throw_error(failed_precondition("Hooks have not ended, so nothing was saved: the session was lost, and no other ",
                                      last_run_ == LastRun::kFailed ? "could be made" : "would have what was trained",
                                      failure_.ok() ? "" : ": ", failure_.ok() ? "" : failure_.to_string()));
    }
    make_live();
  }
  // Each gets its end, whatever another's does: one saves, another lets the other workers go.
  Status first;
  for (const Hook& hook : options_.hooks) {
    try {
      hook->end(live_->session());
    } catch (...) {
      first.update(current_error());
    }
  }
  // An error of a hook's end, such as the last save, says nothing about the variables: they are not marked as failed.
  if (first.ok()) creator_->ended(live_->session());
  throw_if_error(first);
}

void MonitoredSession::Impl::fail_hooks(LiveSession& live, const Status& error) {
  for (const Hook& hook : options_.hooks) hook->failed(live.session(), error);
  creator_->failed(live.session(), error);
}

void MonitoredSession::Impl::after_close(LiveSession& live) {
  for (const Hook& hook : options_.hooks) hook->after_close_session(live.session());
}

Status MonitoredSession::Impl::stop_live() {
  if (live_ == nullptr) return {};
  std::vector<std::string> stragglers;
  Status error = live_->stop(grace(), &stragglers);
  after_close(*live_);
  say_stragglers(stragglers);
  if (!stragglers.empty()) retired_.push_back(std::move(live_));
  live_.reset();
  return error;
}

void MonitoredSession::Impl::close() {
  if (closed_) throw_error(failed_precondition("Session is already closed."));
  Status first;
  try {
    end_hooks();
  } catch (...) {
    first = current_error();
  }
  closed_ = true;
  const Status stopped = stop_live();
  // The end of a thread's input was told to the loop already, and is no error.
  if (last_run_ != LastRun::kInputEnded || stopped.code() != Code::kOutOfRange) first.update(stopped);
  forget_ended();
  events_.flush();
  throw_if_error(first);
}

void MonitoredSession::Impl::end_quietly() {
  if (closed_) return;
  Status error;
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  // The end of the input leaves loops as an exception too, and yet all is well.
  const bool clean = last_run_ == LastRun::kInputEnded || (last_run_ == LastRun::kFine && !unwinding);
  try {
    if (clean) {
      end_hooks();
    } else if (live_ != nullptr) {
      // What passes through a destructor cannot be looked at.
      fail_hooks(*live_, failure_.ok() ? Status(Code::kUnknown, "an exception ended the program's loop") : failure_);
    }
  } catch (...) {
    error = current_error();
  }
  closed_ = true;
  error.update(stop_live());
  events_.flush();
  if (!error.ok() && clean) environment_.say(str_cat("Error at the end of the session: ", error.to_string()));
}

MonitoredSession::MonitoredSession(std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options,
                                   bool recovers)
    : impl_(std::make_unique<Impl>(std::move(creator), std::move(options), recovers)) {}
MonitoredSession::MonitoredSession(std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options)
    : MonitoredSession(std::move(creator), std::move(options), true) {}
MonitoredSession::~MonitoredSession() = default;

std::vector<Tensor> MonitoredSession::run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                          const std::vector<NodeName>& targets, const RunOptions& options) {
  return impl_->with_recovery([&](LiveSession& live) {
    return impl_->run_hooked(live, {feeds, fetches, targets, options});
  });
}

void MonitoredSession::run_step(const std::function<void(StepContext&)>& step) {
  impl_->with_recovery([&](LiveSession& live) {
    StepContext context(live.session(), [&](const Feeds& feeds, const std::vector<TensorName>& fetches,
                                            const std::vector<NodeName>& targets, const RunOptions& options) {
      return impl_->run_hooked(live, {feeds, fetches, targets, options});
    });
    step(context);
    if (context.stop_requested_) impl_->request_stop();
    return true;
  });
}

bool MonitoredSession::should_stop() { return impl_->should_stop(); }

void MonitoredSession::loop(const std::function<void()>& body) {
  try {
    while (!should_stop()) body();
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfRange) {
      impl_->note_failure(error.status());
      throw;
    }
  }
  if (!closed()) close();
}

void MonitoredSession::close() { impl_->close(); }
bool MonitoredSession::closed() const { return impl_->closed(); }
Graph& MonitoredSession::graph() { return impl_->graph(); }
int MonitoredSession::sessions_created() const { return impl_->sessions_created(); }
Session& MonitoredSession::live_session() { return impl_->session(); }

SingularMonitoredSession::SingularMonitoredSession(Graph& graph, SessionCreatorOptions creator,
                                                   MonitoredSessionOptions options)
    : MonitoredSession(std::make_unique<ChiefSessionCreator>(graph, std::move(creator)), std::move(options), false) {}

}  // namespace tutti

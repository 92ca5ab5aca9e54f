#include "tutti/train/sync_replicas_hook.h"

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/internal/chief_record.h"
#include "tutti/train/internal/preemption.h"

namespace tutti {

namespace {

void check_ready(Session& session, const std::string& ready, const std::string& init, const RunOptions& options) {
  const Tensor missing = session.run({}, {ready}, {}, options)[0];
  if (missing.num_elements() == 0) return;
  std::vector<std::string> names;
  for (const std::string& name : missing.flat<std::string>()) names.push_back(printable(name));
  throw_error(failed_precondition(
      "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: ", init,
      ", error: Variables not initialized: ", str_join(names, ", ")));
}

// A step that lasts as long as the session does. Where calls have a time limit it is begun again.
void attend(Session& session, const std::string& presence) {
  session.run_async({}, {}, {presence}, {}, [&session, presence](const Status& status, const std::vector<Tensor>&) {
    if (status.code() == Code::kDeadlineExceeded) attend(session, presence);
  });
}

// For what is run when a session may be broken already.
constexpr std::chrono::seconds kStopTimeout{10};
// Between two looks at the chief: seldom enough to cost nothing beside training.
constexpr std::chrono::seconds kBetweenLooks{1};
// For the chief of a job that is started again to come. It takes its place before it restores a large model.
constexpr std::chrono::seconds kComeBack{30};

}  // namespace

// The thread that applies gradients, and how it is ended.
class SyncReplicasHook::Applying {
 public:
  Applying(std::string apply, std::string interrupt) : apply_(std::move(apply)), interrupt_(std::move(interrupt)) {}

  // Ended when this has returned or thrown.
  void run(Session& session, Coordinator& coordinator) {
    struct AtEnd {
      std::promise<void>& over;
      ~AtEnd() { over.set_value(); }
    } at_end{over_};
    RunOptions options;
    options.cancellation = &cancellation_;
    while (!ended_ && !coordinator.should_stop()) {
      const Status status = session.try_run({}, {}, {apply_}, options).status();
      // What ending it does to a step is no news.
      if (status.ok() || ended_ || coordinator.should_stop()) continue;
      throw_error(status.with_context("synchronous replicas"));
    }
  }

  // Lets an update that has begun come to its end, where that is known.
  void stop(Session& session) {
    if (ended_.exchange(true)) return;
    RunOptions options;
    options.timeout = kStopTimeout;
    if (!interrupt_.empty() && session.try_run({}, {}, {interrupt_}, options).ok()) return;
    cancellation_.cancel(cancelled("synchronous replicas stop"));
  }

  // Until no update is under way any more, or for so long.
  void wait_for_end() { ended_for_good_.wait_for(kStopTimeout); }

 private:
  const std::string apply_;
  const std::string interrupt_;
  std::promise<void> over_;
  const std::future<void> ended_for_good_ = over_.get_future();
  std::atomic<bool> ended_{false};
  Cancellation cancellation_;
};

SyncReplicasHook::SyncReplicasHook(ReplicaSync& sync, bool is_chief, int num_tokens)
    : sync_(sync), is_chief_(is_chief), num_tokens_(num_tokens) {}

void SyncReplicasHook::begin(HookContext& context) {
  ready_ = sync_.ready_for_local_init().name();
  local_init_ = (is_chief_ ? sync_.chief_init() : sync_.local_step_init())->name();
  if (sync_.presence() != nullptr) presence_ = sync_.presence()->name();
  record_ = std::make_shared<internal::ChiefRecord>(context.graph);
  context_ = &context;
  if (!is_chief_) return;
  init_tokens_ = sync_.init_tokens(num_tokens_)->name();
  apply_ = sync_.sync()->name();
  cancel_ = sync_.cancel()->name();
  if (sync_.interrupt() != nullptr) interrupt_ = sync_.interrupt()->name();
}

void SyncReplicasHook::after_create_session(Session& session, Coordinator& coordinator) {
  RunOptions options;
  options.cancellation = context_->cancellation;
  check_ready(session, ready_, local_init_, options);
  if (!presence_.empty()) attend(session, presence_);
  if (is_chief_) {
    session.run({local_init_}, options);
    session.run({init_tokens_}, options);
    start_applying(session, coordinator);
    return;
  }
  // Before the wait for the chief that initialising may be.
  watch_chief(session, coordinator, options);
  const Status begun = session.try_run({}, {}, {local_init_}, options).status();
  if (begun.code() == Code::kOutOfRange) return coordinator.request_stop();  // there is nothing left to do
  if (!begun.ok()) throw_if_error(coordinator.requested_error());
  throw_if_error(begun);
}

void SyncReplicasHook::start_applying(Session& session, Coordinator& coordinator) {
  applying_ = std::make_shared<Applying>(apply_, interrupt_);
  const auto tell = [context = context_, &session](const Status& error) {
    if (!internal::is_preemption(error) && context->announce_failure) context->announce_failure(session, error);
  };
  coordinator.start_thread("SyncReplicas", [&session, &coordinator, applying = applying_, tell] {
    try {
      applying->run(session, coordinator);
    } catch (const Error& error) {
      tell(error.status());
      coordinator.request_stop(error.status());
      // The chief's own step waits for gradients that nobody applies any more.
      static_cast<void>(session.close());
    }
  });
  coordinator.start_thread("SyncReplicasStop", [&session, &coordinator, applying = applying_] {
    coordinator.wait_for_stop();
    applying->stop(session);
  });
}

// A worker that is made after the chief has failed cannot know whether the job is just being started again: a chief
// that comes back gets some time. One that fails while the worker looks is believed at once.
void SyncReplicasHook::watch_chief(Session& session, Coordinator& coordinator, const RunOptions& options) {
  Result<std::optional<internal::ChiefState>> first = record_->read(session, options);
  if (!first.ok()) throw_error(first.status().with_context("synchronous replicas"));
  coordinator.start_thread("ChiefWatch", [record = record_, found = *std::move(first), &session, &coordinator] {
    const TimePoint patience_ends = coordinator.clock().now() + kComeBack;
    while (!coordinator.wait_for_stop(kBetweenLooks)) {
      const Result<std::optional<internal::ChiefState>> now = record->read(session, internal::chief_record_options());
      if (!now.ok() || !*now) continue;  // the worker's own steps meet with that
      const internal::ChiefState& chief = **now;
      const bool is_old = found == *now;
      using Phase = internal::ChiefState::Phase;
      if (chief.phase != Phase::kFailed && chief.phase != Phase::kStopped) continue;
      if (is_old && coordinator.clock().now() < patience_ends) continue;
      const std::string absent = is_old ? str_cat("; no other has come for ", kComeBack.count(), " s") : "";
      coordinator.request_stop(
          cancelled("synchronous replicas: the chief (", chief.name, ") ended with an error: ", chief.error, absent));
      static_cast<void>(session.close());
    }
  });
}

void SyncReplicasHook::end(Session& session) {
  if (!applying_) return;
  applying_->stop(session);
  applying_->wait_for_end();
  session.run({cancel_});
}

}  // namespace tutti

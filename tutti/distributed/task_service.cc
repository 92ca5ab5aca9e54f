#include "tutti/distributed/task_service.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/methods.h"

namespace tutti {
namespace {

// Callers that were refused, remembered so that each is logged once.
constexpr std::size_t kMaxRefused = 1000;

}  // namespace

class TaskService::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(TaskServiceOptions options, CallHandler& others)
      : options_(std::move(options)), others_(others), gate_(options_.hello), leases_(options_.leases) {}

  void handle(IncomingCall call, Reply reply) {
    if (call.method == kHelloMethod) return hello(call, reply);
    if (call.method == kLeaseMethod) return lease(std::move(call), std::move(reply));
    if (call.method == kCreateLeasedSessionMethod) return create_leased(std::move(call), std::move(reply));
    others_.handle(std::move(call), std::move(reply));
  }

  void stop() {
    std::vector<std::shared_ptr<Held>> held;
    {
      MutexLock lock(mu_);
      stopped_ = true;
      for (auto& [id, call] : held_) held.push_back(call);
    }
    for (auto& call : held) finish(*call, End::kStopped);
    // What `abandon` and `leased` use may end with us.
    MutexLock lock(mu_);
    while (telling_ > 0 || !held_.empty()) told_.wait(mu_);
  }

 private:
  // A call for a session that waits for its end: the time to answer, or its caller's going away.
  struct Held {
    std::uint64_t id = 0;
    std::string session;
    Reply reply;
    Cancellation* cancellation = nullptr;
    Mutex mu;  // held while it is set up: whoever ends it first waits for that
    bool ended TUTTI_GUARDED_BY(mu) = false;
    Clock::TimerId timer TUTTI_GUARDED_BY(mu) = 0;
    Cancellation::Token token TUTTI_GUARDED_BY(mu) = 0;
  };
  enum class End { kTime, kCallerGone, kStopped };

  void hello(const IncomingCall& call, const Reply& reply) {
    HelloRequest request;
    if (Status status = decode(call.request, request); !status.ok()) return reply(std::move(status), {});
    if (Status status = check_sender(call, request.task); !status.ok()) return refuse(call, std::move(status), reply);
    auto answer = [&] {
      MutexLock lock(mu_);
      return gate_.answer(request, options_.clock->now());
    }();
    if (!answer.ok()) return refuse(call, answer.status(), reply);
    if (answer->challenge.empty() && !request.task.empty() && options_.heard) {
      options_.heard(request.task, request.incarnation);
    }
    if (!answer->shm_name.empty() && !call.peer_task.empty() && options_.shm_ticket) {
      answer->your_task = call.peer_task;
      answer->shm_ticket = options_.shm_ticket(call.peer_task);
    }
    reply({}, encode(*answer));
  }

  // The transport may know better than the message who calls.
  Status check_sender(const IncomingCall& call, const std::string& task) const {
    if (task.empty() || call.peer_task == task) return {};
    if (call.peer_task.empty() && !options_.certificates) return {};
    if (call.peer_task.empty()) {
      return Status(Code::kUnauthenticated, str_cat("says that it is ", printable(task), ", but proved nothing"));
    }
    return Status(Code::kUnauthenticated,
                  str_cat("says that it is ", printable(task), ", but proved to be ", printable(call.peer_task)));
  }

  void refuse(const IncomingCall& call, Status status, const Reply& reply) {
    const std::string line = str_cat("refused ", printable(call.connection), ": ", status.message());
    bool first = false;
    {
      MutexLock lock(mu_);
      if (refused_.size() < kMaxRefused) first = refused_.insert(line).second;
    }
    if (first) options_.log.warning(line);
    reply(std::move(status), {});
  }

  // A client that dies between this reply and its first lease would leave the session behind.
  void create_leased(IncomingCall call, Reply reply) {
    call.method = methods::kCreateSession;
    others_.handle(std::move(call), [weak = weak_from_this(), reply = std::move(reply)](Status status, Payload bytes) {
      CreateSessionReply created;
      const auto self = status.ok() && decode(bytes, created).ok() ? weak.lock() : nullptr;
      if (self) self->expect_lease(created.session_handle);
      reply(std::move(status), std::move(bytes));
    });
  }

  void expect_lease(const std::string& session) {
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      leases_.created(session, options_.clock->now());
    }
    tick();
  }

  void lease(IncomingCall call, Reply reply) {
    LeaseRequest request;
    if (Status status = decode(call.request, request); !status.ok()) return reply(std::move(status), {});
    if (Status status = check_sender(call, request.task); !status.ok()) return refuse(call, std::move(status), reply);
    if (!request.task.empty() && options_.heard) options_.heard(request.task, request.incarnation);
    if (request.session_handle.empty()) return reply({}, encode(LeaseReply{options_.hello.self.incarnation}));
    hold(std::move(request.session_handle), call.cancellation, std::move(reply));
  }

  void hold(std::string session, Cancellation* cancellation, Reply reply) {
    auto held = std::make_shared<Held>();
    held->session = std::move(session);
    held->reply = std::move(reply);
    held->cancellation = cancellation;
    {
      MutexLock lock(mu_);
      if (!stopped_) {
        held->id = ++next_id_;
        held_[held->id] = held;
        leases_.held(held->session);
      }
    }
    if (held->id == 0) return held->reply(unavailable(options_.hello.self.task, " is stopping"), {});
    if (options_.leased) options_.leased(held->session, true);
    if (!set_up(held)) finish(*held, End::kCallerGone);
  }

  // False when the caller has gone already.
  bool set_up(const std::shared_ptr<Held>& held) {
    const std::weak_ptr<Impl> weak = weak_from_this();
    const auto end_with = [weak, held](End end) {
      if (const auto self = weak.lock()) self->finish(*held, end);
    };
    MutexLock lock(held->mu);
    if (held->ended) return true;
    held->timer =
        options_.clock->call_at(options_.clock->now() + options_.leases.hold, [end_with] { end_with(End::kTime); });
    if (held->cancellation == nullptr) return true;
    held->token = held->cancellation->register_callback([end_with] { end_with(End::kCallerGone); });
    return held->token != 0;
  }

  void finish(Held& held, End end) {
    const auto self = shared_from_this();
    std::shared_ptr<Held> keep;
    Clock::TimerId timer = 0;
    Cancellation::Token token = 0;
    {
      MutexLock lock(held.mu);
      if (std::exchange(held.ended, true)) return;
      timer = held.timer;
      token = held.token;
    }
    // Each waits at most for a callback that found `ended` and returns.
    if (timer != 0 && end != End::kTime) options_.clock->cancel_timer(timer);
    if (token != 0 && end != End::kCallerGone) held.cancellation->deregister(token);
    {
      MutexLock lock(mu_);
      keep = std::move(held_[held.id]);
      held_.erase(held.id);
      ++telling_;
      const TimePoint now = options_.clock->now();
      if (end == End::kCallerGone) {
        leases_.broken(held.session, now);
      } else {
        leases_.answered(held.session, now);
      }
    }
    if (options_.leased) options_.leased(held.session, false);
    end_telling();
    if (end == End::kTime) {
      held.reply({}, encode(LeaseReply{options_.hello.self.incarnation}));
    } else {
      held.reply(unavailable(options_.hello.self.task, end == End::kStopped ? " is stopping" : ": the caller is gone"),
                 {});
    }
    tick();
  }

  // Abandons what is due and sets a timer for what comes next. A timer that comes too early does no harm, so none is
  // taken back.
  void tick() {
    std::vector<std::string> gone;
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      gone = leases_.tick(options_.clock->now());
      if (!gone.empty()) ++telling_;
      const auto next = leases_.next_tick();
      if (timer_at_ && *timer_at_ <= options_.clock->now()) timer_at_.reset();
      if (next && (!timer_at_ || *next < *timer_at_)) {
        timer_at_ = *next;
        options_.clock->call_at(*next, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->tick();
        });
      }
    }
    if (gone.empty()) return;
    for (const auto& session : gone) {
      if (options_.abandon) options_.abandon(session);
    }
    end_telling();
  }

  void end_telling() {
    MutexLock lock(mu_);
    --telling_;
    told_.notify_all();
  }

  const TaskServiceOptions options_;
  CallHandler& others_;

  Mutex mu_;
  HelloGate gate_ TUTTI_GUARDED_BY(mu_);
  SessionLeases leases_ TUTTI_GUARDED_BY(mu_);
  std::map<std::uint64_t, std::shared_ptr<Held>> held_ TUTTI_GUARDED_BY(mu_);
  std::uint64_t next_id_ TUTTI_GUARDED_BY(mu_) = 0;
  std::set<std::string> refused_ TUTTI_GUARDED_BY(mu_);
  std::optional<TimePoint> timer_at_ TUTTI_GUARDED_BY(mu_);  // the next tick
  CondVar told_;
  int telling_ TUTTI_GUARDED_BY(mu_) = 0;  // who tells of sessions now
  bool stopped_ TUTTI_GUARDED_BY(mu_) = false;
};

TaskService::TaskService(TaskServiceOptions options, CallHandler& others)
    : impl_(std::make_shared<Impl>(std::move(options), others)) {}

TaskService::~TaskService() { stop(); }

void TaskService::handle(IncomingCall call, Reply reply) { impl_->handle(std::move(call), std::move(reply)); }

void TaskService::stop() { impl_->stop(); }

}  // namespace tutti

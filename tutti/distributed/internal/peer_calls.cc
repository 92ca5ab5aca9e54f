#include <utility>

#include "tutti/core/strings.h"
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/peers_impl.h"

namespace tutti {

void go_on(const std::shared_ptr<PeerWaiter>& waiter) {
  if (waiter->token != 0) waiter->caller->deregister(waiter->token);
  waiter->go_on();
}

namespace {

// The way to one peer, whichever that is at the time of a call.
class PeerChannel : public Channel {
 public:
  using Send = std::function<void(std::string_view, Payload, const CallOptions&, Done)>;
  PeerChannel(Send send, std::string name) : send_(std::move(send)), name_(std::move(name)) {}
  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    send_(method, std::move(request), options, std::move(done));
  }
  std::string describe() const override { return name_; }

 private:
  const Send send_;
  const std::string name_;
};

}  // namespace

Result<std::shared_ptr<Channel>> Peers::Impl::channel(const std::string& task) {
  if (!peers_.contains(task)) {
    return not_found("no task ", printable(task), " in the cluster (it has: ", str_join(tasks(), ", "), ")");
  }
  const auto call = [weak = weak_from_this(), task](std::string_view method, Payload request,
                                                    const CallOptions& options, Channel::Done done) {
    const auto self = weak.lock();
    if (!self) return done(unavailable(task, ": no longer called, this task has ended"), {});
    self->call(task, method, std::move(request), options, std::move(done));
  };
  return std::shared_ptr<Channel>(std::make_shared<PeerChannel>(call, task));
}

Result<std::shared_ptr<WorkerInterface>> Peers::Impl::worker(const std::string& task) {
  {
    MutexLock lock(mu_);
    if (!stopped_.ok()) return stopped_;
    if (task == options_.task && local_) return local_;
    if (const auto found = peers_.find(task); found != peers_.end() && found->second->worker) {
      return found->second->worker;
    }
  }
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Channel> way, channel(task));
  auto worker = make_remote_worker(std::move(way));
  MutexLock lock(mu_);
  Peer& peer = *peers_.at(task);
  if (!peer.worker) peer.worker = std::move(worker);
  return peer.worker;
}

void Peers::Impl::call(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
                       Channel::Done done) {
  bool doubted = false;
  {
    MutexLock lock(mu_);
    const Peer& peer = *peers_.at(task);
    const PeerState state = health_.state(task);
    // One that is silent is not asked for each call anew: it would wait for as long as it takes to call it silent. Nor
    // does a call go to one whose way just broke: if it was restarted, the news of that would end the call.
    const bool there = state == PeerState::kAlive || state == PeerState::kSuspected;
    doubted = !options.wait_for_ready && ((state == PeerState::kLost && !peer.silent) ||
                                          (state == PeerState::kSuspected && peer.broke && !peer.foreign) ||
                                          (there && !peer.fast && peer.plain_failed));
  }
  if (!doubted) return send(task, method, std::move(request), options, std::move(done));
  auto retry = [self = shared_from_this(), task, method = std::string(method), request = std::move(request), options,
                done = std::move(done)]() mutable {
    self->send(task, method, std::move(request), options, std::move(done));
  };
  // Shared: either this or the waiter goes on with it.
  const auto shared = std::make_shared<decltype(retry)>(std::move(retry));
  if (!wait_for_verdict(task, options, [shared] { (*shared)(); })) (*shared)();
}

// False: there is nothing to wait for, and `retry` is not called.
bool Peers::Impl::wait_for_verdict(const std::string& task, const CallOptions& options, std::function<void()> retry) {
  auto waiter = std::make_shared<PeerWaiter>();
  waiter->go_on = std::move(retry);
  waiter->caller = options.cancellation;
  {
    MutexLock lock(mu_);
    if (!stopped_.ok()) return false;
    Peer& peer = *peers_.at(task);
    waiter->number = peer.next_number++;
    peer.waiters.insert(waiter);
  }
  Cancellation::Token token = 0;
  bool ended = false;
  if (waiter->caller != nullptr) {
    token = waiter->caller->register_callback([weak = weak_from_this(), task, weak_waiter = std::weak_ptr(waiter)] {
      const auto self = weak.lock();
      const auto cancelled = weak_waiter.lock();
      if (self && cancelled) self->end_wait(task, cancelled);
    });
    ended = token == 0;
  }
  {
    MutexLock lock(mu_);
    waiter->token = token;
    waiter->ready = true;
    Peer& peer = *peers_.at(task);
    if (ended) peer.waiters.erase(waiter);
    ended = !peer.waiters.contains(waiter);
  }
  if (ended) {
    go_on(waiter);
  } else {
    ask_again(task);
  }
  return true;
}

// Those that are not ready find out themselves that they were taken out.
std::vector<std::shared_ptr<PeerWaiter>> Peers::Impl::take_waiters(Peer& peer) {
  std::vector<std::shared_ptr<PeerWaiter>> ready;
  for (const auto& waiter : std::exchange(peer.waiters, {})) {
    if (waiter->ready) ready.push_back(waiter);
  }
  return ready;
}

void Peers::Impl::end_wait(const std::string& task, const std::shared_ptr<PeerWaiter>& waiter) {
  {
    MutexLock lock(mu_);
    if (peers_.at(task)->waiters.erase(waiter) == 0 || !waiter->ready) return;
  }
  go_on(waiter);
}

void Peers::Impl::end_waits(const std::string& task) {
  std::vector<std::shared_ptr<PeerWaiter>> waiters;
  {
    MutexLock lock(mu_);
    waiters = take_waiters(*peers_.at(task));
  }
  for (const auto& waiter : waiters) go_on(waiter);
}

void Peers::Impl::send(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
                       Channel::Done done) {
  auto call = std::make_shared<PeerCall>(options.cancellation);
  std::shared_ptr<Channel> channel;
  Status refused;
  const bool asks_status = method == kGetStatusMethod;
  bool first = false;
  bool awaits = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    refused = stopped_;
    if (options.cancellation != nullptr) refused.update(options.cancellation->status());
    // A stopped process still accepts connections: what goes there would wait for it.
    if (!options.wait_for_ready && health_.state(task) == PeerState::kLost) refused.update(peer.loss);
    if (refused.ok()) {
      channel = peer.fast ? peer.fast : plain(peer);
      const bool lost = health_.state(task) == PeerState::kLost;
      if (!lost) call->to = health_.incarnation(task);
      // A new session waits for it. What else goes to one that is lost tells it, should it come back, what ended.
      awaits = lost && asks_status;
      call->number = peer.next_number++;
      peer.calls.insert(call);
      first = !std::exchange(peer.watched, true);
    }
  }
  if (!refused.ok()) return done(refused, {});
  if (first) feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.watch(task, now); });
  if (awaits) feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.await(task, now); });
  PeerCall::follow_caller(call);
  CallOptions own = options;
  own.cancellation = &call->cancellation;
  // With the channel: one that is replaced ends when its last call has.
  channel->call(method, std::move(request), own,
                [self = shared_from_this(), task, call, channel, asks_status, done = std::move(done)](Status status,
                                                                                                      Payload bytes) {
                  self->call_ended(task, call, status);
                  if (asks_status && status.ok()) {
                    return self->status_seen(task, bytes, [call, done, bytes] {
                      call->leave_caller();
                      done({}, bytes);
                    });
                  }
                  call->leave_caller();
                  if (status.code() == Code::kDeadlineExceeded) status = self->with_reason(task, std::move(status));
                  if (status.code() == Code::kUnavailable && status.message().find(task) == std::string::npos) {
                    status = status.with_context(task);
                  }
                  done(std::move(status), std::move(bytes));
                });
}

Status Peers::Impl::with_reason(const std::string& task, Status timed_out) {
  MutexLock lock(mu_);
  const Status& missing = peers_.at(task)->missing;
  return missing.ok() ? timed_out : deadline_exceeded(timed_out.message(), " (", missing.message(), ")");
}

void Peers::Impl::call_ended(const std::string& task, const std::shared_ptr<PeerCall>& call, const Status& status) {
  // Else whoever made it has given it up, by whatever status.
  const bool broke = status.code() == Code::kUnavailable && !call->cancellation.cancelled();
  bool ours = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    ours = peer.calls.erase(call) != 0;
    if (ours && broke) peer.broke = true;
    // A peer that works so hard that heartbeats are late is not silent.
    if (status.ok()) health_.answered(task, call->to, options_.clock->now());
  }
  // Ended by the way itself: find out at once whether the peer lives.
  if (ours && broke) {
    feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.connection_closed(task, now); });
  }
}

// A new session that finds the restarted peer must not be ended by the news of the restart: that comes first, and
// whoever tells news now goes on with `then` after it.
void Peers::Impl::status_seen(const std::string& task, const Payload& bytes, std::function<void()> then) {
  GetStatusReply reply;
  const bool says = decode(bytes, reply).ok() && !reply.devices.empty();
  const std::uint64_t incarnation = says ? reply.devices.front().incarnation : 0;  // 0: not believed
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.heard(task, incarnation, now); },
       {std::move(then), true});
}

}  // namespace tutti

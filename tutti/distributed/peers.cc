#include "tutti/distributed/peers.h"

#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/codec.h"
#include "tutti/distributed/hello.h"

namespace tutti {
namespace {

constexpr std::string_view kGetStatusMethod = "/tensorflow.WorkerService/GetStatus";

// Whether a failed question was answered by somebody, who knows us and lives.
bool is_answer(Code code) {
  switch (code) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kUnauthenticated:
    case Code::kFailedPrecondition:
    case Code::kCancelled:
      return false;
    default:
      return true;
  }
}

// One call to a peer on its way: ended by its caller, or by the peer's loss. Its cancellation is not a child of the
// caller's: that one may end with the call, while a loss still goes through this one.
struct Call {
  explicit Call(Cancellation* caller) : caller(caller) {}
  // Ends it when the caller wants so.
  static void follow_caller(const std::shared_ptr<Call>& call) {
    if (call->caller == nullptr) return;
    const std::weak_ptr<Call> weak = call;
    call->token = call->caller->register_callback([weak] {
      if (const auto self = weak.lock()) self->cancellation.cancel(self->caller->status());
    });
    if (call->token == 0) call->cancellation.cancel(call->caller->status());
  }
  // The caller's cancellation is not touched any more.
  void leave_caller() {
    if (token != 0) caller->deregister(token);
  }

  Cancellation* const caller;
  std::uint64_t to = 0;  // the incarnation that it was made to; 0: to whoever comes. Under the peers' mu_
  Cancellation::Token token = 0;
  Cancellation cancellation;
};

// A call to a peer that is believed lost, until it is known whether that still holds.
struct Waiter {
  std::function<void()> go_on;  // asks the same question again, and takes what is believed then
  Cancellation* caller = nullptr;
  Cancellation::Token token = 0;
  bool ready = false;  // the token is set: who takes it out of the list goes on with it
};

// Runs with no lock held.
void go_on(const std::shared_ptr<Waiter>& waiter) {
  if (waiter->token != 0) waiter->caller->deregister(waiter->token);
  waiter->go_on();
}

}  // namespace

class Peers::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(PeersOptions options) : options_(std::move(options)), health_(options_.health) {
    for (const auto& [task, address] : options_.addresses) {
      auto peer = std::make_unique<Peer>();
      peer->name = task;
      peer->address = address;
      peers_.emplace(task, std::move(peer));
    }
  }

  void set_local(std::shared_ptr<WorkerInterface> worker) {
    MutexLock lock(mu_);
    local_ = std::move(worker);
  }

  Status set_addresses(const std::map<std::string, std::string>& addresses) {
    MutexLock lock(mu_);
    for (const auto& [name, peer] : peers_) {
      if (!addresses.contains(name)) return invalid_argument(options_.task, ": no new address for ", name);
      if (peer->plain) return failed_precondition(options_.task, ": ", name, " was called at ", peer->address);
    }
    if (addresses.size() != peers_.size()) return invalid_argument(options_.task, ": other tasks than before");
    for (const auto& [name, address] : addresses) peers_.at(name)->address = address;
    return {};
  }

  Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task);
  Result<std::shared_ptr<Channel>> channel(const std::string& task);

  std::vector<std::string> tasks() const {
    std::vector<std::string> names;
    for (const auto& [name, address] : options_.addresses) names.push_back(name);
    return names;
  }

  void heard(const std::string& task, std::uint64_t incarnation) {
    if (!peers_.contains(task)) return;  // a task of another cluster, or none
    heard_of(task, incarnation);
  }

  PeerState state(const std::string& task) const {
    MutexLock lock(mu_);
    return health_.state(task);
  }

  std::string describe(const std::string& task) const {
    MutexLock lock(mu_);
    const auto found = peers_.find(task);
    if (found == peers_.end()) return str_cat("no task ", task);
    const Peer& peer = *found->second;
    if (peer.fast) return peer.fast->describe();
    return peer.plain ? peer.plain->describe() : str_cat("grpc://", peer.address);
  }

  void stop(const Status& cause) {
    std::vector<std::shared_ptr<Call>> calls;
    std::vector<std::shared_ptr<Channel>> channels;
    std::vector<std::shared_ptr<Waiter>> waiters;
    {
      MutexLock lock(mu_);
      if (!stopped_.ok()) return;
      stopped_ = cause;
      for (auto& [name, peer] : peers_) {
        for (auto& call : peer->calls) calls.push_back(call);
        channels.push_back(std::move(peer->fast));
        channels.push_back(std::move(peer->plain));
        for (auto& waiter : take_waiters(*peer)) waiters.push_back(std::move(waiter));
      }
      local_.reset();
      events_.clear();
    }
    questions_.cancel(cause);
    for (auto& call : calls) call->cancellation.cancel(cause);
    for (auto& waiter : waiters) go_on(waiter);
    // What `gone` uses may end with us.
    MutexLock lock(mu_);
    while (handling_ && handling_thread_ != std::this_thread::get_id()) handled_.wait(mu_);
  }

  // To a peer that is believed lost, the call waits for one more attempt to reach it.
  void call(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
            Channel::Done done);

 private:
  struct Peer {
    std::string name;
    std::string address;
    std::shared_ptr<WorkerInterface> worker;
    std::shared_ptr<Channel> plain;  // made with the first call
    std::shared_ptr<Channel> fast;   // null: none, or lost
    std::uint64_t fast_number = 0;   // of the attempts at a fast way: tells a late loss from a new one
    std::uint64_t fast_to = 0;       // the incarnation that it leads to
    bool connecting_fast = false;
    std::uint64_t greeted = 0;   // the incarnation that said who it is; 0: none
    bool foreign = false;        // it does not know our service
    bool asking = false;         // a hello or a heartbeat is on its way
    bool asking_afresh = false;  // and over a connection that was begun for it
    bool silent = false;         // lost, but somebody takes connections there: a stopped process, a host that is off
    bool broke = false;          // a way to it, since it was last heard of
    bool plain_failed = false;   // the plain way could not be begun; it pauses before it tries again
    bool found_said = false;
    Status loss;  // the last one
    bool watched = false;
    std::set<std::shared_ptr<Call>> calls;
    std::set<std::shared_ptr<Waiter>> waiters;
  };
  using Feed = std::function<PeerHealth::Events(TimePoint now)>;

  // Tells the state machine something and does what follows, `then` last. Events are handled in their order, one at a
  // time, no lock held, by whoever comes first.
  void feed(const Feed& input, std::function<void()> then = nullptr) {
    {
      MutexLock lock(mu_);
      if (!stopped_.ok()) return;
      for (auto& event : input(options_.clock->now())) {
        events_.emplace_back([this, event = std::move(event)] { handle(event); });
      }
      if (then) events_.push_back(std::move(then));
      set_timer();
      if (handling_) return;
      handling_ = true;
      handling_thread_ = std::this_thread::get_id();
    }
    while (true) {
      std::function<void()> event;
      {
        MutexLock lock(mu_);
        if (events_.empty()) {
          handling_ = false;
          handled_.notify_all();
          return;
        }
        event = std::move(events_.front());
        events_.pop_front();
      }
      event();
    }
  }

  // A timer that comes too early does no harm, so none is taken back.
  void set_timer() TUTTI_REQUIRES(mu_) {
    const auto next = health_.next_tick();
    const TimePoint now = options_.clock->now();
    if (timer_at_ && *timer_at_ <= now) timer_at_.reset();
    if (!next || (timer_at_ && *timer_at_ <= *next)) return;
    timer_at_ = *next;
    options_.clock->call_at(*next, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->tick();
    });
  }

  void tick() {
    feed([this](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.tick(now); });
  }

  void say(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  void handle(const PeerEvent& event) {
    switch (event.kind) {
      case PeerEvent::Kind::kAlive:
        return found(event);
      case PeerEvent::Kind::kRestarted:
      case PeerEvent::Kind::kLost:
        return lost(event);
      case PeerEvent::Kind::kAsk:
        return ask(event.task);
      case PeerEvent::Kind::kMissing:
        return say(str_cat("still missing: ", event.cause.message()));
    }
  }

  void found(const PeerEvent& event) {
    {
      MutexLock lock(mu_);
      Peer& peer = *peers_.at(event.task);
      give_waiting(peer, event.incarnation);
      if (std::exchange(peer.found_said, true)) return;
    }
    say(str_cat("found ", event.task));
  }

  // What was on its way to whoever comes has arrived at this one.
  void give_waiting(Peer& peer, std::uint64_t incarnation) TUTTI_REQUIRES(mu_) {
    for (const auto& call : peer.calls) {
      if (call->to == 0) call->to = incarnation;
    }
  }

  void lost(const PeerEvent& event) {
    std::set<std::shared_ptr<Call>> calls;
    std::shared_ptr<Channel> fast;
    bool silent = false;
    {
      MutexLock lock(mu_);
      Peer& peer = *peers_.at(event.task);
      const bool restarted = event.kind == PeerEvent::Kind::kRestarted;
      // What was made to the new incarnation, or waited for it, goes on.
      std::erase_if(peer.calls, [&](const std::shared_ptr<Call>& call) {
        const bool ends = !restarted || (call->to != 0 && call->to != event.incarnation);
        if (ends) calls.insert(call);
        return ends;
      });
      if (restarted) give_waiting(peer, event.incarnation);
      if (!restarted || peer.fast_to != event.incarnation) fast = std::move(peer.fast);
      if (!restarted) peer.greeted = 0;
      peer.found_said = false;
      peer.loss = event.cause;
      // Lost while a question is open: it did not answer. One that was refused has ended.
      silent = peer.silent = !restarted && peer.asking;
    }
    say(event.cause.message());
    const bool restarted = event.kind == PeerEvent::Kind::kRestarted;
    if (options_.gone) options_.gone(event.task, event.cause, restarted ? event.incarnation : 0);
    for (const auto& call : calls) call->cancellation.cancel(event.cause);
    if (silent) end_waits(event.task);
  }

  std::shared_ptr<Channel> plain(Peer& peer) TUTTI_REQUIRES(mu_) {
    if (!peer.plain) peer.plain = options_.dial(peer.address, peer.name);
    return peer.plain;
  }

  CallOptions question() {
    CallOptions options;
    options.cancellation = &questions_;
    options.deadline = options_.clock->now() + options_.health.lease;
    return options;
  }

  bool wait_for_verdict(const std::string& task, const CallOptions& options, std::function<void()> retry);
  std::vector<std::shared_ptr<Waiter>> take_waiters(Peer& peer) TUTTI_REQUIRES(mu_);
  void end_wait(const std::string& task, const std::shared_ptr<Waiter>& waiter);
  void end_waits(const std::string& task);
  void send(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
            Channel::Done done);
  void heard_of(const std::string& task, std::uint64_t incarnation);
  void ask_again(const std::string& task);
  void ask(const std::string& task);
  void say_hello(const std::string& task, const std::shared_ptr<Channel>& channel, HelloRequest request);
  void hello_answered(const std::string& task, const HelloRequest& request, const Status& status, const Payload& bytes);
  void greeted(const std::string& task, const HelloReply& reply);
  void send_heartbeat(const std::string& task, const std::shared_ptr<Channel>& channel, bool fast);
  void get_status(const std::string& task, const std::shared_ptr<Channel>& channel);
  void ask_failed(const std::string& task, const Status& status);
  void connect_fast(const std::string& task, const std::string& name, std::uint64_t incarnation);
  void fast_lost(const std::string& task, std::uint64_t number);
  void call_ended(const std::string& task, const std::shared_ptr<Call>& call, const Status& status);
  void status_seen(const std::string& task, const Payload& bytes);

  const PeersOptions options_;
  Cancellation questions_;  // hellos and heartbeats

  mutable Mutex mu_;
  // The keys never change.
  std::map<std::string, std::unique_ptr<Peer>> peers_;
  std::shared_ptr<WorkerInterface> local_ TUTTI_GUARDED_BY(mu_);
  PeerHealth health_ TUTTI_GUARDED_BY(mu_);
  std::deque<std::function<void()>> events_ TUTTI_GUARDED_BY(mu_);
  CondVar handled_;
  bool handling_ TUTTI_GUARDED_BY(mu_) = false;  // somebody handles events
  std::thread::id handling_thread_ TUTTI_GUARDED_BY(mu_);
  std::optional<TimePoint> timer_at_ TUTTI_GUARDED_BY(mu_);
  Status stopped_ TUTTI_GUARDED_BY(mu_);
};

namespace {

// The way to one peer, whichever that is at the time of a call.
class PeerChannel : public Channel {
 public:
  using Call = std::function<void(std::string_view, Payload, const CallOptions&, Done)>;
  PeerChannel(Call call, std::string name) : call_(std::move(call)), name_(std::move(name)) {}
  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    call_(method, std::move(request), options, std::move(done));
  }
  std::string describe() const override { return name_; }

 private:
  const Call call_;
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
  auto waiter = std::make_shared<Waiter>();
  waiter->go_on = std::move(retry);
  waiter->caller = options.cancellation;
  {
    MutexLock lock(mu_);
    if (!stopped_.ok()) return false;
    peers_.at(task)->waiters.insert(waiter);
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
std::vector<std::shared_ptr<Waiter>> Peers::Impl::take_waiters(Peer& peer) {
  std::vector<std::shared_ptr<Waiter>> ready;
  for (const auto& waiter : std::exchange(peer.waiters, {})) {
    if (waiter->ready) ready.push_back(waiter);
  }
  return ready;
}

void Peers::Impl::end_wait(const std::string& task, const std::shared_ptr<Waiter>& waiter) {
  {
    MutexLock lock(mu_);
    if (peers_.at(task)->waiters.erase(waiter) == 0 || !waiter->ready) return;
  }
  go_on(waiter);
}

void Peers::Impl::end_waits(const std::string& task) {
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    MutexLock lock(mu_);
    waiters = take_waiters(*peers_.at(task));
  }
  for (const auto& waiter : waiters) go_on(waiter);
}

void Peers::Impl::send(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
                       Channel::Done done) {
  auto call = std::make_shared<Call>(options.cancellation);
  std::shared_ptr<Channel> channel;
  Status refused;
  bool first = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    refused = stopped_;
    if (options.cancellation != nullptr) refused.update(options.cancellation->status());
    // A stopped process still accepts connections: what goes there would wait for it.
    if (!options.wait_for_ready && health_.state(task) == PeerState::kLost) refused.update(peer.loss);
    if (refused.ok()) {
      channel = peer.fast ? peer.fast : plain(peer);
      if (health_.state(task) != PeerState::kLost) call->to = health_.incarnation(task);
      peer.calls.insert(call);
      first = !std::exchange(peer.watched, true);
    }
  }
  if (!refused.ok()) return done(refused, {});
  if (first) feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.watch(task, now); });
  Call::follow_caller(call);
  CallOptions own = options;
  own.cancellation = &call->cancellation;
  // With the channel: one that is replaced ends when its last call has.
  channel->call(method, std::move(request), own,
                [self = shared_from_this(), task, call, channel, asks_status = method == kGetStatusMethod,
                 done = std::move(done)](Status status, Payload bytes) {
                  self->call_ended(task, call, status);
                  if (asks_status && status.ok()) self->status_seen(task, bytes);
                  call->leave_caller();
                  if (status.code() == Code::kUnavailable && status.message().find(task) == std::string::npos) {
                    status = status.with_context(task);
                  }
                  done(std::move(status), std::move(bytes));
                });
}

void Peers::Impl::call_ended(const std::string& task, const std::shared_ptr<Call>& call, const Status& status) {
  bool ours = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    ours = peer.calls.erase(call) != 0;
    if (ours && status.code() == Code::kUnavailable) peer.broke = true;
    // A peer that works so hard that heartbeats are late is not silent.
    if (status.ok()) health_.answered(task, call->to, options_.clock->now());
  }
  // Ended by the way itself: find out at once whether the peer lives.
  if (ours && status.code() == Code::kUnavailable) {
    feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.connection_closed(task, now); });
  }
}

// A new session that finds the restarted peer must not be ended by the news of the restart: that comes first.
void Peers::Impl::status_seen(const std::string& task, const Payload& bytes) {
  GetStatusReply reply;
  if (!decode(bytes, reply).ok() || reply.devices.empty()) return;
  const std::uint64_t incarnation = reply.devices.front().incarnation;
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.heard(task, incarnation, now); });
  // Another thread may be about to tell it. The limit is for an odd case that nobody has seen.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  MutexLock lock(mu_);
  while (handling_ && handling_thread_ != std::this_thread::get_id()) {
    if (!handled_.wait_until(mu_, limit)) return;
  }
}

// Calls that waited for it go on after the news was told: that of a restart would end them.
void Peers::Impl::heard_of(const std::string& task, std::uint64_t incarnation) {
  {
    MutexLock lock(mu_);
    peers_.at(task)->broke = false;
  }
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.heard(task, incarnation, now); },
       [this, task] { end_waits(task); });
}

void Peers::Impl::ask_again(const std::string& task) {
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.ask_now(task, now); });
}

void Peers::Impl::ask(const std::string& task) {
  std::shared_ptr<Channel> old;
  std::shared_ptr<Channel> channel;
  bool greeted = false;
  bool foreign = false;
  bool fast = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    if (!stopped_.ok() || std::exchange(peer.asking, true)) return;
    greeted = peer.greeted != 0 && peer.greeted == health_.incarnation(task);
    foreign = peer.foreign;
    fast = greeted && peer.fast;
    // A way that failed pauses before it connects again, and until then repeats what it found before.
    peer.asking_afresh = !peer.waiters.empty() && peer.calls.empty() && !fast &&
                         (peer.plain_failed || health_.state(task) == PeerState::kLost);
    if (peer.asking_afresh) old = std::move(peer.plain);
    channel = fast ? peer.fast : plain(peer);
  }
  if (foreign) return get_status(task, channel);
  if (greeted) return send_heartbeat(task, channel, fast);
  HelloRequest request;
  request.task = options_.task;
  request.incarnation = options_.incarnation;
  request.host_id = options_.host_id;
  if (!options_.task.empty()) request.to_task = task;
  request.nonce = random_nonce();
  say_hello(task, channel, std::move(request));
}

void Peers::Impl::say_hello(const std::string& task, const std::shared_ptr<Channel>& channel, HelloRequest request) {
  const Payload bytes = encode(request);
  // Without the channel: a call that kept its own way open would outlive a stop.
  channel->call(
      kHelloMethod, bytes, question(),
      [self = shared_from_this(), task, request = std::move(request)](const Status& status, const Payload& reply) {
        self->hello_answered(task, request, status, reply);
      });
}

void Peers::Impl::hello_answered(const std::string& task, const HelloRequest& request, const Status& status,
                                 const Payload& bytes) {
  std::shared_ptr<Channel> channel;
  {
    MutexLock lock(mu_);
    if (!stopped_.ok()) return;
    channel = plain(*peers_.at(task));
  }
  HelloReply reply;
  const Status read = status.ok() ? decode(bytes, reply) : status;
  if (read.code() == Code::kUnimplemented || (read.ok() && reply.version != kHelloVersion)) {
    {
      MutexLock lock(mu_);
      peers_.at(task)->foreign = true;
    }
    return get_status(task, channel);
  }
  if (!read.ok()) return ask_failed(task, read);
  if (!reply.challenge.empty() && request.proof.empty()) {
    auto second = answer_challenge(request, reply, options_.token);
    if (!second.ok()) return ask_failed(task, second.status());
    return say_hello(task, channel, *std::move(second));
  }
  if (const Status proved = check_reply(request, reply, options_.token); !proved.ok()) return ask_failed(task, proved);
  greeted(task, reply);
}

void Peers::Impl::greeted(const std::string& task, const HelloReply& reply) {
  bool want_fast = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    peer.asking = false;
    peer.plain_failed = false;
    peer.greeted = reply.incarnation;
    const bool has_fast = peer.fast && peer.fast_to == reply.incarnation;
    want_fast = stopped_.ok() && options_.dial_fast && !reply.shm_name.empty() && reply.host_id == options_.host_id &&
                !has_fast && !std::exchange(peer.connecting_fast, true);
  }
  heard_of(task, reply.incarnation);
  if (!want_fast) return;
  const auto connect = [self = shared_from_this(), task, reply] {
    self->connect_fast(task, reply.shm_name, reply.incarnation);
  };
  if (options_.run) {
    options_.run(connect);
  } else {
    connect();
  }
}

void Peers::Impl::connect_fast(const std::string& task, const std::string& name, std::uint64_t incarnation) {
  std::uint64_t number = 0;
  {
    MutexLock lock(mu_);
    number = ++peers_.at(task)->fast_number;
  }
  auto channel = options_.dial_fast(name, [weak = weak_from_this(), task, number](const Status&) {
    if (const auto self = weak.lock()) self->fast_lost(task, number);
  });
  std::shared_ptr<Channel> old;
  MutexLock lock(mu_);
  Peer& peer = *peers_.at(task);
  peer.connecting_fast = false;
  // fast_lost may have come before this: it counts on.
  if (!channel.ok() || !stopped_.ok() || peer.fast_number != number) return;
  old = std::exchange(peer.fast, *std::move(channel));
  peer.fast_to = incarnation;
}

void Peers::Impl::fast_lost(const std::string& task, std::uint64_t number) {
  std::shared_ptr<Channel> fast;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    if (peer.fast_number != number) return;
    ++peer.fast_number;
    fast = std::move(peer.fast);
    peer.greeted = 0;
    peer.broke = true;
  }
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.connection_closed(task, now); });
}

void Peers::Impl::send_heartbeat(const std::string& task, const std::shared_ptr<Channel>& channel, bool fast) {
  channel->call(kLeaseMethod, encode(LeaseRequest{options_.task, options_.incarnation, {}}), question(),
                [self = shared_from_this(), task, asked = channel.get(), fast](Status status, const Payload& bytes) {
                  LeaseReply reply;
                  status.update(status.ok() ? decode(bytes, reply) : Status());
                  // Silence says nothing of the way; the lease measures it.
                  const bool silent = status.code() == Code::kDeadlineExceeded;
                  std::shared_ptr<Channel> dropped;
                  {
                    MutexLock lock(self->mu_);
                    Peer& peer = *self->peers_.at(task);
                    peer.asking = false;
                    if (!status.ok() && !silent) {
                      peer.greeted = 0;  // whoever comes next is asked who it is
                      peer.silent = false;
                    }
                    if (!status.ok() && !silent && fast && peer.fast.get() == asked) dropped = std::move(peer.fast);
                  }
                  if (silent) {
                    self->tick();
                    return self->end_waits(task);
                  }
                  if (!status.ok() && !fast) return self->ask_failed(task, status);
                  if (status.ok()) return self->heard_of(task, reply.incarnation);
                  self->feed([&](TimePoint now)
                                 TUTTI_NO_THREAD_SAFETY_ANALYSIS { return self->health_.connection_closed(task, now); },
                             [self, task] { self->end_waits(task); });
                });
}

void Peers::Impl::get_status(const std::string& task, const std::shared_ptr<Channel>& channel) {
  channel->call(kGetStatusMethod, {}, question(),
                [self = shared_from_this(), task](Status status, const Payload& bytes) {
                  GetStatusReply reply;
                  status.update(status.ok() ? decode(bytes, reply) : Status());
                  if (!status.ok()) return self->ask_failed(task, status);
                  {
                    MutexLock lock(self->mu_);
                    self->peers_.at(task)->asking = false;
                    self->peers_.at(task)->plain_failed = false;
                  }
                  const std::uint64_t incarnation = reply.devices.empty() ? 1 : reply.devices.front().incarnation;
                  self->heard_of(task, incarnation);
                });
}

void Peers::Impl::ask_failed(const std::string& task, const Status& status) {
  // No answer is silence, which the lease measures; all else is a way that ended somewhere.
  const bool silent = status.code() == Code::kDeadlineExceeded;
  bool again = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    peer.asking = false;
    peer.greeted = 0;
    peer.foreign = false;  // whoever comes next may be another program
    peer.silent = silent;
    peer.plain_failed = !silent;
    // Those who wait came while this question was on its way, perhaps too early.
    again = !silent && !peer.waiters.empty() && !peer.asking_afresh && peer.calls.empty();
  }
  const bool broke = status.message().find("connection lost") != std::string::npos;
  feed(
      [&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS {
        if (silent) return health_.tick(now);
        const PeerState state = health_.state(task);
        const bool was_there = state == PeerState::kAlive || state == PeerState::kSuspected;
        if (was_there && !broke && is_answer(status.code())) return health_.heard(task, health_.incarnation(task), now);
        if (broke) return health_.connection_closed(task, now);
        return health_.connection_failed(task, connect_stage(status), status, now);
      },
      [this, task, again] { again ? ask_again(task) : end_waits(task); });
}

Peers::Peers(PeersOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Peers::~Peers() { stop(unavailable("this task has ended")); }

void Peers::set_local(std::shared_ptr<WorkerInterface> worker) { impl_->set_local(std::move(worker)); }

Status Peers::set_addresses(const std::map<std::string, std::string>& addresses) {
  return impl_->set_addresses(addresses);
}

Result<std::shared_ptr<Channel>> Peers::channel(const std::string& task) { return impl_->channel(task); }

Result<std::shared_ptr<WorkerInterface>> Peers::worker(const std::string& task) { return impl_->worker(task); }

std::vector<std::string> Peers::tasks() const { return impl_->tasks(); }

void Peers::heard(const std::string& task, std::uint64_t incarnation) { impl_->heard(task, incarnation); }

PeerState Peers::state(const std::string& task) const { return impl_->state(task); }

std::string Peers::describe(const std::string& task) const { return impl_->describe(task); }

void Peers::stop(const Status& cause) { impl_->stop(cause); }

}  // namespace tutti

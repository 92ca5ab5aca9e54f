#include "tutti/distributed/peers.h"

#include <utility>

#include "tutti/core/strings.h"
#include "tutti/distributed/internal/peers_impl.h"

namespace tutti {

Peers::Impl::Impl(PeersOptions options) : options_(std::move(options)), health_(options_.health) {
  for (const auto& [task, address] : options_.addresses) {
    auto peer = std::make_unique<Peer>();
    peer->name = task;
    peer->address = address;
    peers_.emplace(task, std::move(peer));
  }
}

void Peers::Impl::set_local(std::shared_ptr<WorkerInterface> worker) {
  MutexLock lock(mu_);
  local_ = std::move(worker);
}

Status Peers::Impl::set_addresses(const std::map<std::string, std::string>& addresses) {
  MutexLock lock(mu_);
  for (const auto& [name, peer] : peers_) {
    if (!addresses.contains(name)) return invalid_argument(options_.task, ": no new address for ", name);
    if (peer->plain || peer->for_questions)
      return failed_precondition(options_.task, ": ", name, " was called at ", peer->address);
  }
  if (addresses.size() != peers_.size()) return invalid_argument(options_.task, ": other tasks than before");
  for (const auto& [name, address] : addresses) peers_.at(name)->address = address;
  return {};
}

std::vector<std::string> Peers::Impl::tasks() const {
  std::vector<std::string> names;
  for (const auto& [name, address] : options_.addresses) names.push_back(name);
  return names;
}

void Peers::Impl::heard(const std::string& task, std::uint64_t incarnation) {
  if (!peers_.contains(task)) return;  // a task of another cluster, or none
  bool known = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    known = health_.incarnation(task) == incarnation;
    if (known) peer.broke = false;
    peer.unknown_called = !known;
  }
  PeerTurn then;
  if (known) then.run = [this, task] { end_waits(task); };
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.called(task, incarnation, now); },
       std::move(then));
}

PeerState Peers::Impl::state(const std::string& task) const {
  MutexLock lock(mu_);
  return health_.state(task);
}

std::string Peers::Impl::describe(const std::string& task) const {
  MutexLock lock(mu_);
  const auto found = peers_.find(task);
  if (found == peers_.end()) return str_cat("no task ", task);
  const Peer& peer = *found->second;
  if (peer.fast) return peer.fast->describe();
  return peer.plain ? peer.plain->describe() : str_cat("grpc://", peer.address);
}

void Peers::Impl::stop(const Status& cause) {
  std::vector<std::shared_ptr<PeerCall>> calls;
  std::vector<std::shared_ptr<Channel>> channels;
  std::vector<std::shared_ptr<PeerWaiter>> waiters;
  std::deque<PeerTurn> events;
  {
    MutexLock lock(mu_);
    if (!stopped_.ok()) return;
    stopped_ = cause;
    for (auto& [name, peer] : peers_) {
      for (auto& call : peer->calls) calls.push_back(call);
      channels.push_back(std::move(peer->fast));
      channels.push_back(std::move(peer->plain));
      channels.push_back(std::move(peer->for_questions));
      for (auto& waiter : take_waiters(*peer)) waiters.push_back(std::move(waiter));
    }
    local_.reset();
    events.swap(events_);
  }
  questions_.cancel(cause);
  for (auto& call : calls) call->cancellation.cancel(cause);
  for (auto& waiter : waiters) go_on(waiter);
  for (auto& event : events) {
    if (event.always) event.run();
  }
  // What `gone` uses may end with us.
  MutexLock lock(mu_);
  while (handling_ && handling_thread_ != std::this_thread::get_id()) handled_.wait(mu_);
}

void Peers::Impl::feed(const Feed& input, PeerTurn then) {
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = !stopped_.ok();
    if (!stopped) {
      for (auto& event : input(options_.clock->now())) {
        events_.push_back({[this, event = std::move(event)] { handle(event); }});
      }
      if (then.run) events_.push_back(std::move(then));
      set_timer();
      if (handling_) return;
      handling_ = true;
      handling_thread_ = std::this_thread::get_id();
    }
  }
  if (stopped) {
    if (then.always) then.run();
    return;
  }
  while (true) {
    PeerTurn event;
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
    event.run();
  }
}

// A timer that comes too early does no harm, so none is taken back.
void Peers::Impl::set_timer() {
  const auto next = health_.next_tick();
  const TimePoint now = options_.clock->now();
  if (timer_at_ && *timer_at_ <= now) timer_at_.reset();
  if (!next || (timer_at_ && *timer_at_ <= *next)) return;
  timer_at_ = *next;
  options_.clock->call_at(*next, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Peers::Impl::tick() {
  feed([this](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.tick(now); });
}

void Peers::Impl::handle(const PeerEvent& event) {
  switch (event.kind) {
    case PeerEvent::Kind::kAlive:
      return found(event);
    case PeerEvent::Kind::kRestarted:
    case PeerEvent::Kind::kLost:
      return lost(event);
    case PeerEvent::Kind::kAsk:
      return ask(event.task);
    case PeerEvent::Kind::kMissing:
      return missing(event);
    case PeerEvent::Kind::kSuspected:
      return options_.log.warning(event.cause.message());
    case PeerEvent::Kind::kRecovered:
      return options_.log(str_cat(event.task, " answers again, after ",
                                  std::chrono::duration_cast<std::chrono::milliseconds>(event.silence).count(),
                                  " ms; nothing was lost"));
  }
}

void Peers::Impl::missing(const PeerEvent& event) {
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(event.task);
    peer.missing = event.cause;
    if (event.is_reminder && peer.calls.empty()) return;  // no call waits for it
  }
  options_.log.warning(str_cat("still missing: ", event.cause.message()));
}

void Peers::Impl::found(const PeerEvent& event) {
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(event.task);
    give_waiting(peer, event.incarnation);
    peer.missing = {};
    if (std::exchange(peer.found_said, true)) return;
  }
  options_.log(str_cat("found ", event.task));
}

// What was on its way to whoever comes has arrived at this one.
void Peers::Impl::give_waiting(Peer& peer, std::uint64_t incarnation) {
  for (const auto& call : peer.calls) {
    if (call->to == 0) call->to = incarnation;
  }
}

void Peers::Impl::lost(const PeerEvent& event) {
  std::vector<std::shared_ptr<PeerCall>> calls;
  std::shared_ptr<Channel> fast;
  bool silent = false;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(event.task);
    const bool restarted = event.kind == PeerEvent::Kind::kRestarted;
    // What was made to the new incarnation, or waited for it, goes on.
    std::erase_if(peer.calls, [&](const std::shared_ptr<PeerCall>& call) {
      const bool ends = !restarted || (call->to != 0 && call->to != event.incarnation);
      if (ends) calls.push_back(call);
      return ends;
    });
    if (restarted) {
      give_waiting(peer, event.incarnation);
      peer.missing = {};
    }
    if (!restarted || peer.fast_to != event.incarnation) fast = std::move(peer.fast);
    if (!restarted) peer.greeted = 0;
    peer.found_said = false;
    peer.loss = event.cause;
    // Lost while a question is open: it did not answer. One that was refused has ended.
    silent = peer.silent = !restarted && peer.asking;
  }
  const bool restarted = event.kind == PeerEvent::Kind::kRestarted;
  bool used = !calls.empty() || !options_.gone;
  if (options_.gone) used = options_.gone(event.task, event.cause, restarted ? event.incarnation : 0) || used;
  // A task that nothing here uses may simply have finished its work.
  options_.log(used ? LogLevel::kWarning : LogLevel::kInfo, event.cause.message());
  for (const auto& call : calls) call->cancellation.cancel(event.cause);
  if (silent) end_waits(event.task);
}

std::shared_ptr<Channel> Peers::Impl::plain(Peer& peer) {
  if (!peer.plain) peer.plain = options_.dial(peer.address, peer.name);
  return peer.plain;
}

std::shared_ptr<Channel> Peers::Impl::questions_channel(Peer& peer) {
  if (!peer.for_questions) peer.for_questions = options_.dial(peer.address, peer.name);
  return peer.for_questions;
}

// Calls that waited for it go on after the news was told: that of a restart would end them.
void Peers::Impl::heard_of(const std::string& task, std::uint64_t incarnation) {
  {
    MutexLock lock(mu_);
    peers_.at(task)->broke = false;
  }
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.heard(task, incarnation, now); },
       {[this, task] { end_waits(task); }});
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

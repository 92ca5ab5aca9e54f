#include <utility>

#include "tutti/core/strings.h"
#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/peers_impl.h"

namespace tutti {
namespace {

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

}  // namespace

CallOptions Peers::Impl::question() {
  CallOptions options;
  options.cancellation = &questions_;
  options.deadline = options_.clock->now() + options_.health.within_lease().suspect;
  return options;
}

void Peers::Impl::ask_again(const std::string& task) {
  feed([&](TimePoint now) TUTTI_NO_THREAD_SAFETY_ANALYSIS { return health_.ask_now(task, now); });
}

void Peers::Impl::ask(const std::string& task) {
  std::shared_ptr<Channel> old_plain, old_for_questions;  // end after the lock
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
    const bool called = std::exchange(peer.unknown_called, false);
    peer.asking_afresh = (called || !peer.waiters.empty()) && peer.calls.empty() && !fast &&
                         (peer.plain_failed || health_.state(task) == PeerState::kLost);
    if (peer.asking_afresh) {
      old_plain = std::move(peer.plain);
      old_for_questions = std::move(peer.for_questions);
    }
    channel = fast ? peer.fast : questions_channel(peer);
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
    channel = questions_channel(*peers_.at(task));
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
  std::shared_ptr<Channel> rejoined;  // ends after the lock
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    peer.asking = false;
    rejoined = drop_failed(peer);
    peer.greeted = reply.incarnation;
    const bool has_fast = peer.fast && peer.fast_to == reply.incarnation;
    want_fast = stopped_.ok() && options_.dial_fast && !reply.shm_name.empty() && reply.host_id == options_.host_id &&
                !has_fast && !std::exchange(peer.connecting_fast, true);
  }
  heard_of(task, reply.incarnation);
  if (!want_fast) return;
  const auto connect = [self = shared_from_this(), task, reply] { self->connect_fast(task, reply); };
  if (options_.run) {
    options_.run(connect);
  } else {
    connect();
  }
}

void Peers::Impl::connect_fast(const std::string& task, const HelloReply& reply) {
  std::uint64_t number = 0;
  {
    MutexLock lock(mu_);
    number = ++peers_.at(task)->fast_number;
  }
  auto channel = options_.dial_fast(reply, [weak = weak_from_this(), task, number](const Status&) {
    if (const auto self = weak.lock()) self->fast_lost(task, number);
  });
  const std::string way = channel.ok() ? (*channel)->describe() : channel.status().message();
  std::shared_ptr<Channel> old;
  {
    MutexLock lock(mu_);
    Peer& peer = *peers_.at(task);
    peer.connecting_fast = false;
    // fast_lost may have come before this: it counts on.
    if (channel.ok() && stopped_.ok() && peer.fast_number == number) {
      old = std::exchange(peer.fast, *std::move(channel));
      peer.fast_to = reply.incarnation;
    }
  }
  options_.log.debug(str_cat("the fast way to ", task, ": ", way));
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
                             {[self, task] { self->end_waits(task); }});
                });
}

void Peers::Impl::get_status(const std::string& task, const std::shared_ptr<Channel>& channel) {
  channel->call(kGetStatusMethod, {}, question(),
                [self = shared_from_this(), task](Status status, const Payload& bytes) {
                  GetStatusReply reply;
                  status.update(status.ok() ? decode(bytes, reply) : Status());
                  if (!status.ok()) return self->ask_failed(task, status);
                  std::shared_ptr<Channel> rejoined;  // ends after the lock
                  {
                    MutexLock lock(self->mu_);
                    Peer& peer = *self->peers_.at(task);
                    peer.asking = false;
                    rejoined = self->drop_failed(peer);
                  }
                  const std::uint64_t incarnation = reply.devices.empty() ? 1 : reply.devices.front().incarnation;
                  self->heard_of(task, incarnation);
                });
}

// A peer whose connections failed answers again: the channel for calls may still pause before it tries again.
std::shared_ptr<Channel> Peers::Impl::drop_failed(Peer& peer) {
  if (!std::exchange(peer.plain_failed, false)) return nullptr;
  return std::move(peer.plain);
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
      {[this, task, again] { again ? ask_again(task) : end_waits(task); }});
}

}  // namespace tutti

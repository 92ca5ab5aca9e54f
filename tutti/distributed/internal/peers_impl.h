// Inside Peers: what it knows of each peer, and its parts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/peers.h"

namespace tutti {

inline constexpr std::string_view kGetStatusMethod = "/tensorflow.WorkerService/GetStatus";

// One call to a peer on its way: ended by its caller, or by the peer's loss. Its cancellation is not a child of the
// caller's: that one may end with the call, while a loss still goes through this one.
struct PeerCall {
  explicit PeerCall(Cancellation* caller) : caller(caller) {}
  // Ends it when the caller wants so.
  static void follow_caller(const std::shared_ptr<PeerCall>& call) {
    if (call->caller == nullptr) return;
    const std::weak_ptr<PeerCall> weak = call;
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
  std::uint64_t number = 0;  // of all that were made to the peer
  std::uint64_t to = 0;      // the incarnation that it was made to; 0: to whoever comes. Under the peers' mu_
  Cancellation::Token token = 0;
  Cancellation cancellation;
};

// A call to a peer that is believed lost, until it is known whether that still holds.
struct PeerWaiter {
  std::function<void()> go_on;  // asks the same question again, and takes what is believed then
  Cancellation* caller = nullptr;
  std::uint64_t number = 0;  // of all that waited for the peer
  Cancellation::Token token = 0;
  bool ready = false;  // the token is set: who takes it out of the list goes on with it
};

// By age: what happens to many happens to them in the order in which they came.
struct ByNumber {
  bool operator()(const auto& a, const auto& b) const { return a->number < b->number; }
};

// What is done in turn with the news. `always`: also when the peers are stopped before its turn.
struct PeerTurn {
  std::function<void()> run;
  bool always = false;
};

// Lets it go on. No lock is held.
void go_on(const std::shared_ptr<PeerWaiter>& waiter);

class Peers::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(PeersOptions options);

  // As those of Peers.
  void set_local(std::shared_ptr<WorkerInterface> worker);
  Status set_addresses(const std::map<std::string, std::string>& addresses);
  Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task);
  Result<std::shared_ptr<Channel>> channel(const std::string& task);
  std::vector<std::string> tasks() const;
  void heard(const std::string& task, std::uint64_t incarnation);
  PeerState state(const std::string& task) const;
  std::string describe(const std::string& task) const;
  void stop(const Status& cause);

  // To a peer that is believed lost, the call waits for one more attempt to reach it.
  void call(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
            Channel::Done done);

 private:
  struct Peer {
    std::string name;
    std::string address;
    std::shared_ptr<WorkerInterface> worker;
    std::shared_ptr<Channel> plain;  // made with the first call
    // Hellos and heartbeats that do not take the fast way have a connection of their own: behind a large tensor on a
    // slow link they would come too late.
    std::shared_ptr<Channel> for_questions;
    std::shared_ptr<Channel> fast;  // null: none, or lost
    std::uint64_t fast_number = 0;  // of the attempts at a fast way: tells a late loss from a new one
    std::uint64_t fast_to = 0;      // the incarnation that it leads to
    bool connecting_fast = false;
    std::uint64_t greeted = 0;    // the incarnation that said who it is; 0: none
    bool foreign = false;         // it does not know our service
    bool asking = false;          // a hello or a heartbeat is on its way
    bool asking_afresh = false;   // and over a connection that was begun for it
    bool silent = false;          // lost, but somebody takes connections there: a stopped process, a host that is off
    bool broke = false;           // a way to it, since it was last heard of
    bool unknown_called = false;  // another incarnation than the one that is known, since it was last asked
    bool plain_failed = false;    // a plain connection could not be begun; the channel pauses before it tries again
    bool found_said = false;
    Status loss;     // the last one
    Status missing;  // why it cannot be reached, once that was reported; OK when it was found
    bool watched = false;
    std::uint64_t next_number = 0;  // of calls and waiters
    std::set<std::shared_ptr<PeerCall>, ByNumber> calls;
    std::set<std::shared_ptr<PeerWaiter>, ByNumber> waiters;
  };
  using Feed = std::function<PeerHealth::Events(TimePoint now)>;

  // --- news (peers.cc) ---

  // Tells the state machine something and does what follows, `then` last. Events are handled in their order, one at a
  // time, no lock held, by whoever comes first.
  void feed(const Feed& input, PeerTurn then = {});
  void set_timer() TUTTI_REQUIRES(mu_);
  void tick();
  void handle(const PeerEvent& event);
  void missing(const PeerEvent& event);
  void found(const PeerEvent& event);
  void give_waiting(Peer& peer, std::uint64_t incarnation) TUTTI_REQUIRES(mu_);
  void lost(const PeerEvent& event);
  void heard_of(const std::string& task, std::uint64_t incarnation);
  std::shared_ptr<Channel> plain(Peer& peer) TUTTI_REQUIRES(mu_);
  std::shared_ptr<Channel> questions_channel(Peer& peer) TUTTI_REQUIRES(mu_);

  // --- calls of others (internal/peer_calls.cc) ---

  bool wait_for_verdict(const std::string& task, const CallOptions& options, std::function<void()> retry);
  std::vector<std::shared_ptr<PeerWaiter>> take_waiters(Peer& peer) TUTTI_REQUIRES(mu_);
  void end_wait(const std::string& task, const std::shared_ptr<PeerWaiter>& waiter);
  void end_waits(const std::string& task);
  void send(const std::string& task, std::string_view method, Payload request, const CallOptions& options,
            Channel::Done done);
  // A call that ran out of time, with why the peer could not be reached.
  Status with_reason(const std::string& task, Status timed_out);
  void call_ended(const std::string& task, const std::shared_ptr<PeerCall>& call, const Status& status);
  void status_seen(const std::string& task, const Payload& bytes, std::function<void()> then);

  // --- our questions: who it is, whether it lives, where its fast way is (internal/peer_questions.cc) ---

  CallOptions question();
  void ask_again(const std::string& task);
  void ask(const std::string& task);
  void say_hello(const std::string& task, const std::shared_ptr<Channel>& channel, HelloRequest request);
  void hello_answered(const std::string& task, const HelloRequest& request, const Status& status, const Payload& bytes);
  void greeted(const std::string& task, const HelloReply& reply);
  void send_heartbeat(const std::string& task, const std::shared_ptr<Channel>& channel, bool fast);
  void get_status(const std::string& task, const std::shared_ptr<Channel>& channel);
  std::shared_ptr<Channel> drop_failed(Peer& peer) TUTTI_REQUIRES(mu_);
  void ask_failed(const std::string& task, const Status& status);
  void connect_fast(const std::string& task, const HelloReply& reply);
  void fast_lost(const std::string& task, std::uint64_t number);

  const PeersOptions options_;
  Cancellation questions_;  // hellos and heartbeats

  mutable Mutex mu_;
  // The keys never change.
  std::map<std::string, std::unique_ptr<Peer>> peers_;
  std::shared_ptr<WorkerInterface> local_ TUTTI_GUARDED_BY(mu_);
  PeerHealth health_ TUTTI_GUARDED_BY(mu_);
  std::deque<PeerTurn> events_ TUTTI_GUARDED_BY(mu_);
  CondVar handled_;
  bool handling_ TUTTI_GUARDED_BY(mu_) = false;  // somebody handles events
  std::thread::id handling_thread_ TUTTI_GUARDED_BY(mu_);
  std::optional<TimePoint> timer_at_ TUTTI_GUARDED_BY(mu_);
  Status stopped_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti

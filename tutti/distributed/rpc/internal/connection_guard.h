// Accepts the connections of a server, and closes those that would make gRPC hold memory or compute without limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/core/status.h"
#include "tutti/core/thread_pool.h"
#include "tutti/core/unique_fd.h"
#include "tutti/distributed/security.h"
#include "tutti/distributed/task_log.h"

namespace tutti::rpc_internal {

// gRPC 1.51 stops accepting for ever after one EMFILE, gathers headers without limit (CVE-2023-33953), and tells nobody
// of a connection before its first call. So this class accepts, hands each connection to gRPC and watches it from
// outside: what the kernel counts of the connection's bytes (TCP_INFO) is compared with what its calls came to. The
// bytes themselves are not looked at, which costs transfers nothing and works for TLS as well.
//
//   * At most 3/8 of the process's file limit are connections (each takes two files: gRPC's and the guard's), and at
//     most 3/4 of those come from one host. Connections beyond are closed at once, with a file that is kept in reserve
//     for accepting them when the process has none left.
//   * A connection is a stranger until a request of it was admitted and complete. Until then it may send a few KB, or
//     for a moment more: HTTP/2's flow control lets a client send a few MB of a first request before the server has
//     seen its call. After a stranger was cut off, further ones from its host come in one after the other for some
//     seconds.
//   * Afterwards it may send a few hundred KB without the server sending anything back, and a few tens of MB while it
//     owes (the rest of) a message. During a transfer the server sends window updates long before; while a header goes
//     on without end, HTTP/2 allows no other frame.
//   * It may abandon as many calls a second as it may have open.
//   * A message that it has begun goes on, slowly at least: ServerLimits::message.
//
// Thread-safe.
class ConnectionGuard {
 public:
  // Takes over a non-blocking connection that `listener` accepted.
  using HandOver = std::function<void(int listener, UniqueFd connection)>;
  // When `peer` owes (the rest of) a message: a number that changes whenever a message of it was received completely.
  using OwedMessage = std::function<std::optional<std::uint64_t>(const std::string& peer)>;

  // `unacknowledged`: how long the peer's host may leave data unacknowledged before the connection breaks. `log`: where
  // it says whom it refused; null: standard error.
  ConnectionGuard(const ServerLimits& limits, std::chrono::milliseconds unacknowledged, TaskLog log);
  ~ConnectionGuard();  // stop()

  // Once. The functions are called on the guard's threads until stop() has returned; `owed_message` with its lock held.
  // Errors: kResourceExhausted when the process has no file or thread left for it.
  Status start(std::vector<UniqueFd> listeners, HandOver hand_over, OwedMessage owed_message);
  // Stops listening. Connections that were handed over stay as they are. Idempotent.
  void stop();

  // What the server found out of a peer, by gRPC's name for it ("ipv4:10.0.0.1:40312"). Unknown names are ignored.
  void call_admitted(const std::string& peer) TUTTI_EXCLUDES(mu_);
  void message_received(const std::string& peer) TUTTI_EXCLUDES(mu_);
  // The caller or its connection has ended a call before it was answered.
  void call_abandoned(const std::string& peer, TimePoint now) TUTTI_EXCLUDES(mu_);

  std::size_t num_connections() TUTTI_EXCLUDES(mu_);

 private:
  using Id = std::uint64_t;  // of a connection; never used again

  // What the kernel counts of a connection.
  struct Traffic {
    std::uint64_t taken = 0;   // bytes that gRPC has read
    std::uint64_t unread = 0;  // bytes that wait for gRPC
    std::uint64_t sent = 0;    // bytes that the server has sent
  };

  struct Connection {
    std::string name;          // for people
    std::string key;           // as peer_key() of gRPC's name
    std::string name_at_grpc;  // known since its first call was admitted
    std::string host;
    UniqueFd fd;         // of the same socket as gRPC's; for looking and shutting down only
    UniqueFd held_back;  // gRPC's own, while its host is distrusted and other strangers of it come first
    int listener = -1;
    bool cut = false;
    bool proven = false;  // a request of it was complete; until then it is a stranger
    bool owes = false;    // the rest of a message, the same one at two ticks
    std::optional<std::uint64_t> owed_at_tick;
    bool active = false;       // looked at in every tick
    bool first_window = true;  // the kernel takes little at a time
    Traffic last;              // when it was looked at last
    // Traffic::taken at the start of the stretch in which nothing came of what it sends, and when the server last sent
    // something to it.
    std::uint64_t base = 0;
    std::uint64_t quiet_base = 0;
    int long_ticks = 0;   // in that stretch, since it became long
    int still_ticks = 0;  // in a row without a byte
    TimePoint abandoned_until;
    // Of the message that it owes: the number and Traffic::taken of the time when it was last seen to come on.
    std::uint64_t owed = 0;
    std::uint64_t owed_taken = 0;
    int owed_seconds = 0;
  };

  // A host of which a stranger was cut off. For a while its strangers come in one after the other: each has proved
  // itself, was cut off or has had its turn before the next, unless that one has waited for long.
  struct Distrust {
    TimePoint until;
    Id on_trial = 0;  // 0: none
    TimePoint trial_end;
    std::deque<std::pair<Id, TimePoint>> waiting;  // in the order of their arrival
  };

  // How many bytes a connection may send while nothing comes of them.
  struct Bounds {
    std::uint64_t at_once;  // at any time
    std::uint64_t at_tick;  // when a tick finds it so
    std::uint64_t lasting;  // with more it may go on for `ticks` in which something arrives or waits for gRPC
    int ticks;
  };
  static const Bounds kStranger;
  static const Bounds kDistrusted;
  static const Bounds kCaller;  // a call of it was admitted
  static const Bounds kProven;
  static const Bounds kOwing;

  static Traffic traffic_of(int fd);

  void run();
  bool stopping() TUTTI_EXCLUDES(mu_);
  void accept_all(int listener) TUTTI_EXCLUDES(mu_);
  void take_in(int listener, UniqueFd accepted) TUTTI_EXCLUDES(mu_);
  void schedule_hand_over(int listener, UniqueFd connection);
  void hand_over_waiting() TUTTI_EXCLUDES(mu_);
  void end_trial(Id id, const std::string& host) TUTTI_REQUIRES(mu_);
  bool refuse_with_reserve(int listener) TUTTI_EXCLUDES(mu_);
  void listen_for(std::uint32_t events);
  void connection_ready(Id id, std::uint32_t events) TUTTI_EXCLUDES(mu_);
  void tick() TUTTI_EXCLUDES(mu_);
  void each_second() TUTTI_EXCLUDES(mu_);
  int timeout_ms(TimePoint now) TUTTI_EXCLUDES(mu_);
  // Empty: one more connection of `host` may come in; else why not.
  std::string refusal(const std::string& host) const TUTTI_REQUIRES(mu_);
  Bounds bounds_of(const Connection& connection) const TUTTI_REQUIRES(mu_);
  void begin_stretch(Connection& connection, const Traffic& now) TUTTI_REQUIRES(mu_);
  void look_for_message(Connection& connection) TUTTI_REQUIRES(mu_);
  bool may_be_message(const Connection& connection) const TUTTI_REQUIRES(mu_);
  Connection* find(const std::string& peer) TUTTI_REQUIRES(mu_);  // null: unknown
  void inspect(Id id, Connection& connection, bool at_tick) TUTTI_REQUIRES(mu_);
  void inspect_owed(Connection& connection, std::uint64_t owed) TUTTI_REQUIRES(mu_);
  void set_active(Id id, Connection& connection, bool active) TUTTI_REQUIRES(mu_);
  void cut(Connection& connection, const std::string& why) TUTTI_REQUIRES(mu_);
  void forget(Id id) TUTTI_REQUIRES(mu_);
  void to_say(const std::string& line) TUTTI_REQUIRES(mu_);
  void say() TUTTI_EXCLUDES(mu_);

  const unsigned unacknowledged_ms_;
  const Duration of_one_abandoned_;  // part of a second's abandoned calls that each uses up
  const int message_seconds_;
  const TaskLog log_;

  // Constant after start().
  HandOver hand_over_;
  OwedMessage owed_message_;
  UniqueFd epoll_;
  UniqueFd wake_;  // an eventfd

  // Of the guard's thread.
  std::vector<UniqueFd> listeners_;
  UniqueFd reserve_;     // given up for accepting a connection that is to be closed
  bool paused_ = false;  // listening, until the next tick
  TimePoint next_tick_;
  TimePoint next_second_;

  Mutex mu_;
  Id next_id_ TUTTI_GUARDED_BY(mu_) = 0;
  std::unordered_map<Id, Connection> connections_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, Id> by_key_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, Id> by_name_ TUTTI_GUARDED_BY(mu_);           // gRPC's, of those with calls
  std::unordered_map<std::string, std::size_t> of_host_ TUTTI_GUARDED_BY(mu_);  // connections
  std::set<Id> active_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, Distrust> distrusted_ TUTTI_GUARDED_BY(mu_);  // by host
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  std::string line_ TUTTI_GUARDED_BY(mu_);  // to be said; empty: none
  TimePoint said_ TUTTI_GUARDED_BY(mu_);
  int unsaid_ TUTTI_GUARDED_BY(mu_) = 0;

  std::unique_ptr<ThreadPool> hand_over_threads_;
  std::thread thread_;
};

// The peer in the form that sockets and gRPC's names for peers have in common: "10.0.0.1 40312".
std::string peer_key(const std::string& grpc_peer);

}  // namespace tutti::rpc_internal

// How much one connection may have open at a time, and how often a host may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/core/status.h"
#include "tutti/distributed/security.h"

namespace tutti::rpc_internal {

// How often each host has called lately. A host that was silent may make the calls of one second at once, and then as
// many as time gives back. Hosts that could do so cost nothing. Not thread-safe.
class CallRates {
 public:
  explicit CallRates(int calls_per_second);  // 0: any number
  // False: too many, and this one is not counted.
  bool admit(const std::string& host, TimePoint now);
  std::size_t num_hosts() const { return used_until_.size(); }

 private:
  void forget_silent(TimePoint now);

  const Duration of_one_call_;  // 0: any number
  // Each call takes its part of a second, one after the other; nobody may be more than a second ahead of the clock.
  std::unordered_map<std::string, TimePoint> used_until_;
  std::size_t forget_at_;  // hosts at which those that are silent are looked for
};

// Counts the open calls and the held bytes of every connection that has calls open, and the calls of every host with
// open or recent calls; others cost nothing. Thread-safe.
//
// A call goes through: enter; read_when_allowed, which calls `read` now or later; read_ended; answering; leave (from
// any of these states but a pending read). gRPC gathers a message before it tells its size, so what bounds memory while
// messages arrive is that few of them are read at a time. Requests beyond the limits are refused. Answers that the peer
// does not take are not: those tensors mostly exist anyway, and a parameter server's answers of one step may be more
// than any limit. While they are over the limit, the connection's further requests wait instead.
class ConnectionLimits {
 public:
  // Messages that arrive at the same time on one connection; each may be as large as a message may be.
  static constexpr int kReads = 16;
  // Calls of one host whose message is not there yet, for each call that one connection may have open.
  static constexpr int kUnreadPerCall = 10;

  struct Connection;  // of one peer

  explicit ConnectionLimits(const ServerLimits& limits) : limits_(limits), rates_(limits.calls_per_second) {}

  // kResourceExhausted when the peer has too many calls open, or its host calls too often or owes too many messages.
  Result<Connection*> enter(const std::string& peer, TimePoint now);
  // `read` must be short.
  void read_when_allowed(Connection& connection, std::function<void()> read);
  // `bytes` have arrived and are held until leave(). kResourceExhausted when they are too many.
  Status read_ended(Connection& connection, std::size_t bytes);
  // `bytes` of answer are held until leave().
  void answering(Connection& connection, std::size_t bytes);
  // REQUIRES: the bytes as given before. The connection must not be used any more by this call.
  void leave(Connection& connection, std::size_t request_bytes, std::size_t answer_bytes);
  // When messages of `peer` are being received: a number that changes with each that is complete.
  std::optional<std::uint64_t> owed_message(const std::string& peer);

 private:
  struct Host {
    int connections = 0;  // with open calls
    int unread = 0;       // calls whose message is not there yet
  };
  std::vector<std::function<void()>> take_allowed(Connection& connection) TUTTI_REQUIRES(mu_);

  const ServerLimits limits_;
  Mutex mu_;
  CallRates rates_ TUTTI_GUARDED_BY(mu_);
  // By peer. Elements stay where they are until erased, with their last call.
  std::unordered_map<std::string, Connection> connections_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, Host> hosts_ TUTTI_GUARDED_BY(mu_);  // of connections_
  std::uint64_t reads_ended_ TUTTI_GUARDED_BY(mu_) = 0;
};

// "ipv4:10.0.0.1" of "ipv4:10.0.0.1:40312".
std::string host_of(const std::string& peer);

struct ConnectionLimits::Connection {
  std::string peer;
  Host* host = nullptr;
  int calls = 0;
  int reads = 0;
  std::uint64_t latest_read = 0;  // of reads_ended_: its own latest, or of when it had none under way
  std::size_t request_bytes = 0;
  std::size_t answer_bytes = 0;
  std::deque<std::function<void()>> waiting;  // reads that are not yet allowed
};

}  // namespace tutti::rpc_internal

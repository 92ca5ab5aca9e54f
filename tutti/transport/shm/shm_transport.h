// Calls between processes of one host. A unix socket carries the handshake, the file descriptors and, when it closes,
// the news of a death; messages go through rings in shared memory; large values that were allocated in a shared segment
// cross as a reference. See docs/design/0005-shared-memory.md.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/allocator.h"
#include "tutti/core/clock.h"
#include "tutti/core/status.h"
#include "tutti/transport/channel.h"

namespace tutti {

struct ShmOptions {
  std::string task;    // who we are, told to peers
  std::string secret;  // both sides must know the same; may be empty
  // Peers are believed only the name that they have a ticket() for; else any that they say, when they know the secret.
  bool tickets = false;
  int threads = 0;  // that receive and handle calls; 0: one a core and one more
  // Of values lent to peers at once, and as much again of large ones that are copied; beyond: through the ring.
  std::size_t segment_bytes = std::size_t{1} << 30;
  std::size_t ring_bytes = std::size_t{1} << 18;  // a direction and connection; made a power of two
  // Of one request or reply, sent or received; at most 64 GiB. Beyond: kResourceExhausted.
  std::size_t message_bytes = std::size_t{64} << 30;
  // Of a peer's requests that wait for their reply; one alone may be larger. Beyond: kResourceExhausted.
  std::size_t connection_bytes = std::size_t{64} << 30;
  // Calls that the handler deals with in no time, by their method: they are handled by the thread that reads them,
  // before it reads on. Null: none.
  std::function<bool(std::string_view method)> quick;
  // Threads that have received something look for more for a moment before they sleep (internal/poller.h).
  bool polls = true;
  Clock* clock = nullptr;  // outlives it
};

// Who we are to a process that gives tickets, as it told us over a way on which we could prove it.
struct ShmTicket {
  std::string task;
  std::string ticket;
};

// The shared memory of one process: what it lends, whom it serves, whom it calls. Thread-safe.
class ShmTransport {
 public:
  // `handler` serves the calls of peers; null: this process only calls. Must outlive it.
  static Result<std::unique_ptr<ShmTransport>> create(const ShmOptions& options, CallHandler* handler);
  ~ShmTransport();  // as stop()

  // Under which peers of this host connect: a name in the abstract socket namespace, random for each process. Empty
  // without a handler.
  const std::string& name() const;
  // The same for all processes that can reach each other this way (boot, network namespace and user), else
  // different.
  static std::string host_id();
  // What proves here that a peer is `task`: to be told to that task alone. Empty where no tickets are wanted.
  std::string ticket(const std::string& task) const;
  // To the process that listens under `name`, as who its ticket says, or else as ourselves. Connects at once;
  // kUnavailable when nobody is there, kUnauthenticated when it knows another secret. `on_lost` runs once when the peer
  // is gone, on any thread; not after the channel or the transport has ended it. Waits for the peer, at most about a
  // second; stop() ends it with kCancelled.
  Result<std::shared_ptr<Channel>> connect(const std::string& name, std::function<void(Status)> on_lost,
                                           const ShmTicket& ticket = {});
  // Memory that crosses without a copy. Falls back to the heap when the segment is full. Never null.
  Allocator& shared_allocator();
  // For a thread that is about to sleep until a call of this transport has set `done`: it looks for the reply itself,
  // for `patience` at most. Calls whose options have this `waiter` end on it, others never do.
  void help(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience);
  // Ends all calls with kCancelled, takes no more, joins the threads. Not from a handler or a callback. Idempotent.
  void stop();

 private:
  class Impl;
  explicit ShmTransport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

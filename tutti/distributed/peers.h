// The other tasks of a cluster: the best way to each, and whether it lives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/peer_health.h"
#include "tutti/distributed/task_log.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti {

struct PeersOptions {
  std::map<std::string, std::string> addresses;  // of each task: "/job:ps/replica:0/task:1" -> "host:port"
  std::string task;                              // our own; empty: a client, whose peer may be any task
  std::uint64_t incarnation = 0;                 // our own
  std::string token;                             // the cluster's join token, or empty
  std::string host_id;                           // ours; peers with the same one may be reached the fast way
  PeerHealthOptions health;
  Clock* clock = nullptr;  // outlives it
  // The plain way to a task at an address. Does not connect yet.
  std::function<std::shared_ptr<Channel>(const std::string& address, const std::string& task)> dial;
  // The fast way to a process of this host that answered our hello; null: there is none. May take a moment.
  std::function<Result<std::shared_ptr<Channel>>(const HelloReply& peer, std::function<void(Status)> on_lost)>
      dial_fast;
  // Runs what may take a moment, on a thread of its own; null: at once.
  std::function<void(std::function<void()>)> run;
  // A task is gone (kUnavailable), or came back as another incarnation (kAborted), which is told then; else 0.
  // Returns whether anything here used it: otherwise its end is not worth a warning.
  std::function<bool(const std::string& task, const Status& cause, std::uint64_t incarnation)> gone;
  TaskLog log;  // null: nothing is said
};

// Drives a PeerHealth: asks peers whom somebody uses, says hello, takes the fast way where there is one and the plain
// one where not or no longer. Calls to a suspect wait. Calls to a peer that is lost end with the cause, when one more
// attempt to reach it has failed; to one that was lost for its silence, at once. A peer that does not know our service
// is asked by GetStatus. Thread-safe.
class Peers : public WorkerDirectory {
 public:
  explicit Peers(PeersOptions options);
  ~Peers() override;  // as stop()

  // The worker of our own task, before the first call. Outlives the peers.
  void set_local(std::shared_ptr<WorkerInterface> worker);
  // The same tasks under the addresses that they have now. kFailedPrecondition once a peer was called, kInvalidArgument
  // for other tasks.
  Status set_addresses(const std::map<std::string, std::string>& addresses);

  Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task) override;
  std::vector<std::string> tasks() const override;

  // The way to a task, whichever is best at the time of each call. kNotFound when there is no such task.
  Result<std::shared_ptr<Channel>> channel(const std::string& task);

  // A peer called us. Another incarnation than the one that is known is asked who it is before it is believed.
  void heard(const std::string& task, std::uint64_t incarnation);
  PeerState state(const std::string& task) const;
  // "shm to ...", "grpc://...": the way that the next call takes.
  std::string describe(const std::string& task) const;
  // Ends all calls with `cause` and refuses later ones. Idempotent.
  void stop(const Status& cause);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti

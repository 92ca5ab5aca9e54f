// A task of a cluster: a master and a worker behind one port.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distributed/cluster_spec.h"
#include "tutti/distributed/messages.h"
#include "tutti/distributed/peer_health.h"
#include "tutti/distributed/security.h"
#include "tutti/distributed/task_log.h"
#include "tutti/runtime/local_runtime.h"
#include "tutti/runtime/session.h"

namespace tutti {

class Cancellation;

struct ServerOptions {
  ClusterSpec cluster;
  std::string job;  // may be empty when the cluster has one job
  int task = -1;    // may be -1 when the job has one task
  // Where to listen; empty: the task's own address. Port 0: the system picks one, and target() tells it.
  std::string listen;
  RuntimeOptions runtime;  // job, task and clock are set by the server
  SecurityOptions security;
  ServerLimits limits;
  // Empty, off loopback: no file may be read or written; on loopback: any. Otherwise these directories only.
  std::vector<std::string> data_directories;
  // A session of a client that does not renew a lease (TensorFlow's) is collected after so long without a call; 0:
  // never.
  std::chrono::seconds session_idle_limit{0};
  // What sessions of this server's master have where their client asks for nothing else: flags of both count, and
  // filters add up.
  SessionConfig default_config;
  // The fast ways to tasks of the same host.
  bool shared_memory = true;
  // How long another task, or a client that holds a session, may be silent before it is taken for dead; half a second
  // at least. Until then calls to it wait, and it goes on as if nothing had happened. A task whose port refuses
  // connections is dead at once.
  std::chrono::milliseconds lease = kDefaultLease;
  // Where lines for people go, one at a time; null: standard error, all but those for debugging.
  TaskLog log;
};

// How a client wants its session.
struct ConnectOptions {
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  bool isolate_session_state = false;
  std::vector<std::string> device_filters;
  std::chrono::milliseconds operation_timeout{0};  // of each call; 0: no limit
  // Of waiting for the master and its cluster, for which the log says whom it waits for after 3 s and every 10 s; 0: no
  // limit. Nothing: operation_timeout where there is one, else ten minutes.
  std::optional<std::chrono::milliseconds> create_timeout;
  // Waits for the master and for tasks of its cluster that are not there yet; else kUnavailable, which names one of
  // them, after about a second of attempts. (A master of TensorFlow waits for its tasks in any case.)
  bool wait_for_ready = true;
  SecurityOptions security;
  bool shared_memory = true;
  // How long the master may be silent before calls to it end with kUnavailable; as ServerOptions has it. Nothing: what
  // TUTTI_LEASE says, else kDefaultLease.
  std::optional<std::chrono::milliseconds> lease;
  // Where lines for people go; null: nothing is said.
  TaskLog log = log_to_stderr(LogLevel::kWarning);
  // Ends the wait for the cluster, with its cause; null: nothing does. Outlives the call of connect.
  Cancellation* cancellation = nullptr;
};

// Thread-safe.
class Server {
 public:
  // Listens when this returns. Errors: kInvalidArgument for an address without a port or a task that the cluster lacks;
  // kUnknown "could not start gRPC server" when the port is taken; kFailedPrecondition when it would be open to a
  // network without security. Raises the process's soft limit of open files to the hard one.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  // As stop().
  ~Server();

  // "grpc://host:port"
  const std::string& target() const;
  // "/job:ps/replica:0/task:0"
  const std::string& task() const;
  // Waits until stop() was called and has ended.
  void join();
  // Ends what runs with kUnavailable, tells peers, waits for all of its threads. Idempotent. False when something could
  // not be ended within two seconds, such as a read from a disk that hangs: it is abandoned, with what it uses, until
  // it ends by itself. What `ServerOptions` points to must then outlive that, too.
  bool stop();
  // The cluster under the addresses that its tasks got: for servers that were started on port 0 and told so by the
  // others' target(). The tasks must be the same; kFailedPrecondition once another task was called.
  Status set_addresses(const ClusterSpec& cluster);
  // A session for a client in the same process: the way without a wire. May outlive the server, and fails then.
  Result<std::unique_ptr<Session>> connect(Graph& graph, const ConnectOptions& options = {});

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// A session on the master at "grpc://host:port" (wherever that is, the fastest way to it is taken). `graph` must
// outlive the session and may grow between runs. Errors: kNotFound for another kind of target,
// kInvalidArgument for an address without a port. Whether the master is there shows with the first call.
Result<std::unique_ptr<Session>> connect(const std::string& target, Graph& graph, const ConnectOptions& options = {});

// Destroys the state in these containers (all when none is named) on every task, and ends the master's sessions.
Status reset(const std::string& target, const std::vector<std::string>& containers = {},
             const ConnectOptions& options = {});

}  // namespace tutti

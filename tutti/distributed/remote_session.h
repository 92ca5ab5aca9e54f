// A session on a remote master.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "tutti/distributed/master_interface.h"
#include "tutti/runtime/session.h"

namespace tutti {

struct RemoteSessionOptions {
  SessionConfig config;
  std::string target;                           // as the user wrote it
  bool wait_for_ready = true;                   // for the master and for the tasks of its cluster
  std::chrono::milliseconds create_timeout{0};  // of waiting for the cluster; 0: as config.operation_timeout
  Cancellation* create_cancellation = nullptr;  // of the same; null: nothing ends it. Outlives make_remote_session
  Clock* clock = nullptr;                       // null: the machine's time
  // Where a thread that waits for a step may help with what ends it, as ShmTransport::help; null: it sleeps.
  std::function<void(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience)> help;
  // How a thread waits for an answer, until it has come, where time is simulated; null: it sleeps.
  std::function<void(const std::atomic<bool>& answered)> await;
  std::uint64_t seed = 0;  // of request ids; 0: from the system
};

// Sends `graph` to the master with the first run and what was added since with later ones. `graph` must outlive it and
// may grow between runs.
Result<std::unique_ptr<Session>> make_remote_session(std::shared_ptr<MasterInterface> master, Graph& graph,
                                                     RemoteSessionOptions options);

}  // namespace tutti

// What sessions of clients are made with.
#pragma once

#include <chrono>
#include <string>

#include "tutti/distributed/remote_session.h"
#include "tutti/distributed/server.h"

namespace tutti {

// kInvalidArgument for a lease that is too short for a heartbeat, or longer than anyone can wait.
Status check_lease(std::chrono::milliseconds lease);
// For connections: a peer is taken for dead by its lease, before its connections are.
std::chrono::milliseconds keepalive_timeout(std::chrono::milliseconds lease);

RemoteSessionOptions remote_session_options(const std::string& target, const ConnectOptions& options, Clock* clock);

}  // namespace tutti

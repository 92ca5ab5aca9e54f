// What a client asks of a new session, against what the server allows.
#pragma once

#include <string>

#include "tutti/distributed/messages.h"

namespace tutti::internal {

// The request's over the server's, as ConfigProtos merge: what the request sets wins, lists grow.
SessionConfig merge_configs(const SessionConfig& server, const SessionConfig& request);
// kInvalidArgument for what a remote master does not do.
Status check_config(const SessionConfig& config);

// The task of `cluster` whose address the client dialled (`target`, "grpc://host:port"), as "/job:...". Errors:
// kInvalidArgument when there is none, or two, or it is `booted`, the name under which the server was started.
Result<std::string> find_own_task(const ClusterTasks& cluster, const std::string& target, const std::string& booted);

}  // namespace tutti::internal

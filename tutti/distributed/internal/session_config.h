// What a client asks of a new session, against what the server allows.
#pragma once

#include <string>

#include "tutti/distributed/messages.h"

namespace tutti::internal {

// The request's over the server's, as ConfigProtos merge: what the request sets wins, lists grow.
SessionConfig merge_configs(const SessionConfig& server, const SessionConfig& request);
// kInvalidArgument for what a remote master does not do.
Status check_config(const SessionConfig& config);

}  // namespace tutti::internal

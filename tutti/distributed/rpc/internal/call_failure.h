// What gRPC's own failures mean for people.
#pragma once

#include <string>

#include "tutti/core/status.h"

namespace tutti::rpc_internal {

// Says at which peer (`channel`) and by which step a failure that this side's gRPC has made up came about: looking up
// the name, connecting, the handshake, a connection that was lost. What a peer has answered stays as it is.
Status explain_failure(const Status& status, const std::string& channel, const std::string& method);

}  // namespace tutti::rpc_internal

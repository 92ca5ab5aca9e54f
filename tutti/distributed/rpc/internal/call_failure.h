// What gRPC's own failures mean for people.
#pragma once

#include <string>

#include "tutti/core/status.h"

namespace tutti::rpc_internal {

// Metadata of a failure that Tutti's server has answered, as opposed to one that gRPC has made up on the way.
inline constexpr char kAnswerKey[] = "tutti-answer";

// Says at which peer (`channel`) and by which step a failure that this side's gRPC has made up came about: looking up
// the name, connecting, the handshake, a connection that was lost. Other texts stay as they are. REQUIRES: the failure
// has no kAnswerKey.
Status explain_failure(const Status& status, const std::string& channel, const std::string& method);

}  // namespace tutti::rpc_internal

// How a certificate names a task: a subjectAltName that is the URI "tutti://job/ps/task/1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"

namespace tutti::rpc_internal {

// Of "/job:ps/replica:0/task:1". kInvalidArgument when job or task is missing, or the replica is not 0.
Result<std::string> task_to_uri(std::string_view task);
// The task that one of these names of a certificate gives. kUnauthenticated when none does, or two differ.
Result<std::string> task_of_uris(const std::vector<std::string>& uris);

}  // namespace tutti::rpc_internal

// The sockets at which a server listens.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/unique_fd.h"

namespace tutti::rpc_internal {

struct ListeningSockets {
  std::vector<UniqueFd> sockets;  // non-blocking; one for each address of the host, at least one
  int port = 0;                   // of all of them
};

// `address`: "host:port"; port 0: the system picks one. As with gRPC's own listeners, a host name with several
// addresses needs one of them only, and the wildcard of IPv4 includes IPv6 where the system has it. Errors: kUnknown
// when no address can be bound, with the reason.
Result<ListeningSockets> listen_at(const std::string& address);

}  // namespace tutti::rpc_internal

// What SecurityOptions mean for gRPC.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "tutti/core/status.h"
#include "tutti/distributed/security.h"

namespace grpc {
class AuthContext;
}

namespace tutti::rpc_internal {

// Whether certificate files are given.
bool encrypted(const SecurityOptions& security);

// Errors: kInvalidArgument when only some of the files are named or one holds no PEM; what reading a file gave.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const SecurityOptions& security);
// `task`: whom the server's certificate must name; empty: any task of the cluster.
Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const SecurityOptions& security,
                                                                      const std::string& task);

// The task that the peer's certificate names.
Result<std::string> peer_task(const grpc::AuthContext& context);

// kFailedPrecondition when a server at `address` could be reached from a network without TLS and a token, unless
// `insecure`. kInvalidArgument for an address without a port.
Status check_exposure(const std::string& address, const SecurityOptions& security);

}  // namespace tutti::rpc_internal

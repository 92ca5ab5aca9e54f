// The gRPC library as a whole, of which a process has one.
#pragma once

namespace tutti::rpc_internal {

// To be called before gRPC is used; later calls do nothing. Two of its habits are bad for a server:
//   * It takes itself down with its last object, and then waits up to 10 s for a poller of its own. It is kept from
//   that.
//   * It logs a line for whatever a stranger sends to a port: for each failed handshake, for each bad header. Unless
//   the
//     environment variable GRPC_VERBOSITY asks for all of it, what comes from one place in gRPC's sources is written at
//     most once a minute, to standard error.
void keep_grpc();

}  // namespace tutti::rpc_internal

// gRPC as a transport: a server that hands calls to a handler, and channels to other servers. No generated services:
// methods are names, messages are bytes, so that tensors are never copied into a protobuf.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/status.h"
#include "tutti/distributed/security.h"
#include "tutti/distributed/task_log.h"
#include "tutti/transport/channel.h"

namespace tutti {

struct GrpcServerOptions {
  std::string address;  // "127.0.0.1:0"
  SecurityOptions security;
  ServerLimits limits;
  // That wait for calls and handle them; 0: one a core, at least 4. As many again help when all but one are busy.
  int threads = 0;
  // Where refused peers are told of, one line at a time, once for each; null: standard error. Thread-safe.
  TaskLog log;
};

// Thread-safe.
class GrpcServer {
 public:
  // `handler` must outlive it. Errors: kUnknown "could not start gRPC server" when the address is taken or cannot be
  // bound; kFailedPrecondition when it would be open to a network without security; kInvalidArgument for an address
  // without a port; what reading the certificates gave.
  static Result<std::unique_ptr<GrpcServer>> start(const GrpcServerOptions& options, CallHandler& handler);
  ~GrpcServer();  // as stop()
  int port() const;
  // Handles no more calls, cancels those that are being handled, waits for their replies and joins the threads.
  // Idempotent. Not from a handler or a reply.
  void stop();

 private:
  class Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What the channels of a process share: completion threads. Thread-safe. Destroying it, not from a `done`, ends the
// calls of its channels with kCancelled and waits for them; channels that are left fail every later call so.
class GrpcClient {
 public:
  struct Options {
    SecurityOptions security;
    int threads = 0;  // that complete calls; 0: 2
    std::size_t message_bytes = std::size_t{2} << 30;
    // A GrpcServer lives in this process as long, whose threads look after connections on which nothing is called.
    bool beside_server = false;
  };
  explicit GrpcClient(Options options);
  ~GrpcClient();
  // Does not connect yet. `task`: whom the peer's certificate must name; empty: nobody in particular. Certificates that
  // cannot be read fail every call.
  std::shared_ptr<Channel> channel(const std::string& address, const std::string& task = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

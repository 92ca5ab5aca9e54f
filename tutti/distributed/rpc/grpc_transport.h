// gRPC as a transport: a server that hands calls to a handler, and channels to other servers. No generated services:
// methods are names, messages are bytes, so that tensors are never copied into a protobuf.
#pragma once

#include <chrono>
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

namespace rpc_internal {
class CompletionThreads;
}

struct GrpcServerOptions {
  std::string address;  // "127.0.0.1:0"
  SecurityOptions security;
  ServerLimits limits;
  // That wait for calls and handle them, and complete those of clients beside the server; 0: one a core, at least 4. As
  // many again help when all but one are busy.
  int threads = 0;
  // A connection whose peer answers no ping for so long is closed. Longer than a task may be silent: a process that
  // pauses keeps its connections.
  std::chrono::milliseconds keepalive_timeout{40'000};
  // Where refused peers are told of, one line at a time, once for each; null: standard error. Thread-safe.
  TaskLog log;
};

// Thread-safe.
class GrpcServer {
 public:
  // Nobody can call it yet, but clients beside it may use its threads.
  explicit GrpcServer(GrpcServerOptions options);
  ~GrpcServer();  // stop(), then joins the threads
  // Once. `handler` is called until stop() has returned. Errors: kUnknown "could not start gRPC server" when the
  // address is taken or cannot be bound; kFailedPrecondition when it would be open to a network without security;
  // kInvalidArgument for an address without a port; kUnavailable after stop(); what reading the certificates gave.
  Status open(CallHandler& handler);
  // Both at once.
  static Result<std::unique_ptr<GrpcServer>> start(const GrpcServerOptions& options, CallHandler& handler);
  int port() const;
  // Handles no more calls, cancels those that are being handled and waits for their replies. Idempotent. Not from a
  // handler or a reply.
  void stop();

 private:
  friend class GrpcClient;
  class Impl;
  rpc_internal::CompletionThreads& threads();
  std::unique_ptr<Impl> impl_;
};

// What the channels of a process share: completion threads. Thread-safe. Destroying it, not from a `done`, ends the
// calls of its channels with kCancelled and waits for them; channels that are left fail every later call so.
class GrpcClient {
 public:
  struct Options {
    SecurityOptions security;
    // Whose threads complete the calls, so that its handlers must not wait for one; it outlives the client. Null:
    // threads of its own.
    GrpcServer* server = nullptr;
    int threads = 0;  // of its own; 0: 2
    std::size_t message_bytes = std::size_t{2} << 30;
    std::chrono::milliseconds keepalive_timeout{40'000};  // as GrpcServerOptions has it
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

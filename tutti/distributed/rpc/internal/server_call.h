// The calls of a GrpcServer.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/distributed/rpc/internal/answer_parts.h"
#include "tutti/distributed/rpc/internal/call_token.h"
#include "tutti/distributed/rpc/internal/connection_guard.h"
#include "tutti/distributed/rpc/internal/connection_limits.h"

namespace tutti::rpc_internal {

class CompletionThreads;
class ServerCall;

// What the calls of one server share, and the list of them. Thread-safe.
//
// Stopping, so that no call ever touches a queue that was shut down:
//   1. begin_stop(): calls that come from now on are refused, but for those that take a kept answer; those being
//      handled are cancelled;
//   2. wait_answered(): a while for the answers to go out;
//   3. the caller shuts the gRPC server down, which fails every operation that is still pending;
//   4. wait_gone(): until the last call has got back all of its operations and its reply;
//   5. the caller may shut the queue down.
class ServerCalls {
 public:
  // `handler` and `threads`, which wait on the queue, must outlive it, or at least wait_gone(). `guard` outlives it.
  ServerCalls(const GrpcServerOptions& options, CallHandler& handler, CompletionThreads& threads,
              ConnectionGuard& guard);

  grpc::AsyncGenericService& service() { return service_; }
  // Waits for calls. REQUIRES: the server that has `service()` and `queue` was started; `queue` outlives the calls.
  void listen(grpc::ServerCompletionQueue& queue);
  void begin_stop() TUTTI_EXCLUDES(mu_);
  void wait_answered(TimePoint deadline) TUTTI_EXCLUDES(mu_);
  void wait_gone() TUTTI_EXCLUDES(mu_);
  // As ConnectionLimits::owed_message().
  std::optional<std::uint64_t> owed_message(const std::string& peer) { return limits_.owed_message(peer); }

 private:
  friend class ServerCall;

  // For ServerCall: its life.
  void created();
  void destroyed();
  void listen_for_one();
  // False when the server stops: the handler must not see the call.
  bool begin(const std::shared_ptr<ServerCall>& call);
  // One that takes part of an answer, which a server that stops still gives.
  void begin_part(const std::shared_ptr<ServerCall>& call);
  void end(const std::shared_ptr<ServerCall>& call);
  // Who calls. Adds what a refusal carries to the context.
  Result<std::string> authenticate(grpc::GenericServerContext& context);
  void log_refusal(const std::string& peer, const Status& why);

  const GrpcServerOptions options_;
  const bool encrypted_;
  CallHandler& handler_;
  CompletionThreads& threads_;
  ConnectionGuard& guard_;
  grpc::AsyncGenericService service_;
  grpc::ServerCompletionQueue* queue_ = nullptr;  // constant after listen()
  const std::unique_ptr<TokenVerifier> token_;    // null: none is wanted
  ConnectionLimits limits_;
  KeptAnswers kept_;

  Mutex mu_;
  CondVar changed_;
  int live_ TUTTI_GUARDED_BY(mu_) = 0;  // objects of ServerCall
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  // Begun and not yet ended, that is, not known to have been sent.
  std::unordered_set<std::shared_ptr<ServerCall>> handled_ TUTTI_GUARDED_BY(mu_);
  std::set<std::string, std::less<>> logged_ TUTTI_GUARDED_BY(mu_);  // hosts whose refusal was told
};

}  // namespace tutti::rpc_internal

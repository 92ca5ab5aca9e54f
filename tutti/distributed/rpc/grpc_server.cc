#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/distributed/rpc/internal/completion_threads.h"
#include "tutti/distributed/rpc/internal/connection_guard.h"
#include "tutti/distributed/rpc/internal/credentials.h"
#include "tutti/distributed/rpc/internal/listening_sockets.h"
#include "tutti/distributed/rpc/internal/server_call.h"
#include "tutti/distributed/rpc/internal/wire.h"

namespace tutti {
namespace {

using namespace rpc_internal;  // NOLINT: the other half of this file

// For answers to calls that a stop has cancelled to reach their callers.
constexpr std::chrono::seconds kStopGrace{1};

// Between pings of an idle connection. 10,000 idle connections make 330 pings a second.
constexpr int kKeepaliveMs = 30'000;
// Fewer and longer frames than HTTP/2's 16 KiB for tensors.
constexpr int kFrameBytes = 1 << 20;

int polling_threads(int wanted) {
  if (wanted > 0) return wanted;
  return std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
}

void set_arguments(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  const ServerLimits& limits = options.limits;
  builder.SetMaxReceiveMessageSize(message_limit(limits.message_bytes));
  builder.SetMaxSendMessageSize(message_limit(kMostMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(options.keepalive_timeout.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(limits.handshake.count()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  // Above our own limit, so that calls beyond it are refused with a reason instead of waiting at the caller.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(std::min<std::int64_t>(
                                                                  2LL * limits.calls_per_connection + 100, 1 << 30)));
}

// Hands accepted connections to gRPC.
ConnectionGuard::HandOver hand_over_to(grpc::experimental::ExternalConnectionAcceptor& acceptor) {
  return [&acceptor](int listener, UniqueFd connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection.release();
    acceptor.HandleNewConnection(&parameters);
  };
}

}  // namespace

class GrpcServer::Impl {
 public:
  explicit Impl(GrpcServerOptions options)
      : options_(std::move(options)),
        queue_(builder_.AddCompletionQueue()),
        guard_(options_.limits, options_.keepalive_timeout, options_.log),
        threads_("rpc-serve", polling_threads(options_.threads), *queue_) {}
  ~Impl() { stop(); }

  Status open(CallHandler& handler) {
    MutexLock lock(mu_);
    TUTTI_CHECK(calls_ == nullptr, "a server is opened once");
    if (stopped_) return unavailable("the server was stopped before it was opened");
    TUTTI_RETURN_IF_ERROR(check_exposure(options_.address, options_.security));
    TUTTI_ASSIGN_OR_RETURN(auto credentials, server_credentials(options_.security));
    auto listening = listen_at(options_.address);
    if (!listening.ok()) return listening.status().with_context("could not start gRPC server");
    calls_ = std::make_unique<ServerCalls>(options_, handler, threads_, guard_);
    set_arguments(builder_, options_);
    acceptor_ = builder_.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
    builder_.RegisterAsyncGenericService(&calls_->service());
    server_ = builder_.BuildAndStart();
    if (server_ == nullptr) return Status(Code::kUnknown, "could not start gRPC server");
    port_ = listening->port;
    calls_->listen(*queue_);
    return guard_.start(std::move(listening->sockets), hand_over_to(*acceptor_),
                        [calls = calls_.get()](const std::string& peer) { return calls->owed_message(peer); });
  }

  CompletionThreads& threads() { return threads_; }
  int port() const { return port_.load(); }

  void stop() {
    MutexLock lock(mu_);
    if (std::exchange(stopped_, true) || server_ == nullptr) return;
    calls_->begin_stop();
    calls_->wait_answered(std::chrono::steady_clock::now() + kStopGrace);
    guard_.stop();
    server_->Shutdown(std::chrono::system_clock::now());
    calls_->wait_gone();
  }

 private:
  const GrpcServerOptions options_;
  std::atomic<int> port_{0};
  grpc::ServerBuilder builder_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;                        // gRPC wants it to outlive the server
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;  // constant after open()
  ConnectionGuard guard_;
  Mutex mu_;
  // Null: not opened.
  std::unique_ptr<ServerCalls> calls_ TUTTI_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Server> server_ TUTTI_GUARDED_BY(mu_);
  bool stopped_ TUTTI_GUARDED_BY(mu_) = false;
  CompletionThreads threads_;  // last: joined first
};

GrpcServer::GrpcServer(GrpcServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
GrpcServer::~GrpcServer() = default;

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcServerOptions& options, CallHandler& handler) {
  auto server = std::make_unique<GrpcServer>(options);
  TUTTI_RETURN_IF_ERROR(server->open(handler));
  return server;
}

CompletionThreads& GrpcServer::threads() { return impl_->threads(); }
Status GrpcServer::open(CallHandler& handler) { return impl_->open(handler); }
int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::stop() { impl_->stop(); }

}  // namespace tutti

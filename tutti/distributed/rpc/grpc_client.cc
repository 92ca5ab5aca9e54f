#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/distributed/rpc/internal/client_call.h"
#include "tutti/distributed/rpc/internal/credentials.h"
#include "tutti/distributed/rpc/internal/wire.h"

namespace tutti {
namespace {

using namespace rpc_internal;  // NOLINT: the other half of this file

constexpr int kThreads = 2;

// Between attempts to connect.
constexpr int kFirstBackoffMs = 100;
constexpr int kMostBackoffMs = 1000;
// For one attempt with its handshake, which gRPC calls the least backoff.
constexpr int kConnectMs = 5000;
// TensorFlow's servers hang up on who pings more often than every 5 minutes. That is for the kernel's idea of a
// connection alone; tasks notice each other's death by their leases, much earlier.
constexpr int kClientKeepaliveMs = 310'000;
// Fewer and longer frames than HTTP/2's 16 KiB for tensors.
constexpr int kClientFrameBytes = 1 << 20;
// A peer's error text of 3 KiB may take three times as much in a header.
constexpr int kMetadataBytes = 64 << 10;

grpc::ChannelArguments channel_arguments(const GrpcClient::Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(message_limit(options.message_bytes));
  arguments.SetMaxSendMessageSize(message_limit(kMostMessageBytes));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kClientKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(options.keepalive_timeout.count()));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kClientFrameBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  // Every channel its own connection, which goes with it; gRPC would share them all over the process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Tasks of a cluster reach each other directly, whatever http_proxy says to browsers.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Who calls decides what is tried again; gRPC would keep a copy of each message for it.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return arguments;
}

std::string describe_peer(const std::string& address, const std::string& task) {
  return task.empty() ? str_cat("grpc://", address) : str_cat("grpc://", address, " (", task, ")");
}

class GrpcChannel final : public Channel {
 public:
  explicit GrpcChannel(std::shared_ptr<ChannelState> state) : state_(std::move(state)) {}
  ~GrpcChannel() override { state_->close(); }

  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    std::make_shared<ClientCall>(state_, method, options, std::move(done))->start(request);
  }
  std::string describe() const override { return state_->description(); }

 private:
  const std::shared_ptr<ChannelState> state_;
};

}  // namespace

class GrpcClient::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        state_(std::make_shared<ClientState>(options_.server != nullptr ? &options_.server->threads() : nullptr,
                                             options_.threads > 0 ? options_.threads : kThreads)) {}
  ~Impl() { state_->close(); }

  std::shared_ptr<Channel> channel(const std::string& address, const std::string& task) {
    const SecurityOptions& security = options_.security;
    ChannelState::Dial dial;
    Status broken;
    if (auto credentials = channel_credentials(security, task); credentials.ok()) {
      dial = [address, credentials = *credentials, arguments = channel_arguments(options_)] {
        return grpc::CreateCustomChannel(address, credentials, arguments);
      };
    } else {
      broken = credentials.status();
    }
    std::unique_ptr<TokenSigner> signer;
    if (!security.join_token.empty()) signer = std::make_unique<TokenSigner>(security.join_token, encrypted(security));
    auto state =
        std::make_shared<ChannelState>(state_, std::move(dial), std::move(broken), describe_peer(address, task),
                                       std::move(signer), options_.message_bytes);
    if (!state_->add(state)) state->close();
    return std::make_shared<GrpcChannel>(std::move(state));
  }

 private:
  const Options options_;
  const std::shared_ptr<ClientState> state_;
};

GrpcClient::GrpcClient(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
GrpcClient::~GrpcClient() = default;

std::shared_ptr<Channel> GrpcClient::channel(const std::string& address, const std::string& task) {
  return impl_->channel(address, task);
}

}  // namespace tutti

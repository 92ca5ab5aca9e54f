// The calls of a GrpcClient's channels.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/distributed/rpc/internal/call_token.h"
#include "tutti/distributed/rpc/internal/completion_threads.h"
#include "tutti/transport/channel.h"

namespace tutti::rpc_internal {

class ChannelState;

// What the channels of one client share. Thread-safe.
class ClientState {
 public:
  // Calls end on the queue of `shared`, which outlives this; null: on one with so many threads of its own.
  ClientState(CompletionThreads* shared, int threads);
  CompletionThreads& threads() { return threads_; }
  // False when the client has closed.
  bool add(const std::shared_ptr<ChannelState>& channel);
  // Ends all calls, waits until every `done` has returned and joins its threads. Once.
  void close() TUTTI_EXCLUDES(mu_);

  // For calls: their life.
  void call_began();
  void call_ended();

 private:
  const std::unique_ptr<grpc::CompletionQueue> own_queue_;  // null: shared
  std::unique_ptr<CompletionThreads> own_threads_;          // the same; from construction to close()
  CompletionThreads& threads_;
  Mutex mu_;
  CondVar no_calls_;
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  int calls_ TUTTI_GUARDED_BY(mu_) = 0;
  std::vector<std::weak_ptr<ChannelState>> channels_ TUTTI_GUARDED_BY(mu_);
};

// One call of a channel. gRPC's pending operation, the channel's list and the cancellation's callback hold it.
class ClientCall final : public CompletionTag, public std::enable_shared_from_this<ClientCall> {
 public:
  // `beside`: over the channel's second connection.
  ClientCall(std::shared_ptr<ChannelState> channel, std::string_view method, const CallOptions& options,
             Channel::Done done, bool beside = false);
  // Once.
  void start(const Payload& request);
  void cancel() TUTTI_EXCLUDES(mu_);

  bool arrived(bool ok) override;
  void work() override;
  bool brief() const override;

 private:
  // One sending of the call; a second follows when the server asks for another proof.
  struct Attempt {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };

  void send();
  bool asked_for_proof();
  // Of an answer that is to be taken in parts: its name; else empty.
  std::string kept_as() TUTTI_REQUIRES(mu_);
  void finish();
  Status outcome();

  const std::shared_ptr<ChannelState> channel_;
  const std::string method_;
  const std::optional<TimePoint> deadline_;
  const bool wait_for_ready_;
  const bool beside_;
  Cancellation* const cancellation_;
  Channel::Done done_;
  grpc::ByteBuffer request_;
  Cancellation::Token token_ = 0;
  int attempts_ = 0;
  std::shared_ptr<ClientCall> pending_;  // itself, while gRPC has the tag
  Mutex mu_;
  bool cancel_wanted_ TUTTI_GUARDED_BY(mu_) = false;
  std::shared_ptr<Attempt> attempt_ TUTTI_GUARDED_BY(mu_);
};

// What a channel and its calls share, which may outlive it. Thread-safe.
class ChannelState {
 public:
  // A channel that connects, by itself, when first called.
  using Dial = std::function<std::shared_ptr<grpc::Channel>()>;

  // A null `dial` fails every call with `broken`.
  ChannelState(std::shared_ptr<ClientState> client, Dial dial, Status broken, std::string description,
               std::unique_ptr<TokenSigner> signer, std::size_t message_bytes);

  ClientState& client() { return *client_; }
  grpc::GenericStub& stub() { return *stub_; }
  // The second connection, for what goes beside other things. Made when first asked for.
  grpc::GenericStub& beside() TUTTI_EXCLUDES(mu_);
  // It failed: for some time it is not worth another try.
  void beside_failed() TUTTI_EXCLUDES(mu_);
  bool has_beside() TUTTI_EXCLUDES(mu_);
  TokenSigner* signer() { return signer_.get(); }
  const std::string& description() const { return description_; }
  // Of one answer, at most.
  std::size_t message_bytes() const { return message_bytes_; }

  // Runs `ask`, which asks for a part of a large answer: now, or when others have ended. After each part_ended().
  void ask_for_part(std::function<void()> ask) TUTTI_EXCLUDES(mu_);
  void part_ended() TUTTI_EXCLUDES(mu_);

  // kCancelled when the channel has closed. A call that was added must be removed.
  Status add(const std::shared_ptr<ClientCall>& call) TUTTI_EXCLUDES(mu_);
  void remove(const std::shared_ptr<ClientCall>& call) TUTTI_EXCLUDES(mu_);
  // Cancels the calls; does not wait for them.
  void close() TUTTI_EXCLUDES(mu_);
  bool closed() TUTTI_EXCLUDES(mu_);
  Status closed_status() const { return cancelled(description_, ": the channel was closed"); }

 private:
  void ask_for_waiting_parts() TUTTI_EXCLUDES(mu_);

  const std::shared_ptr<ClientState> client_;
  const Dial dial_;
  const Status broken_;
  const std::string description_;
  const std::unique_ptr<grpc::GenericStub> stub_;
  const std::unique_ptr<TokenSigner> signer_;  // null: no token
  const std::size_t message_bytes_;
  Mutex mu_;
  std::unique_ptr<grpc::GenericStub> beside_ TUTTI_GUARDED_BY(mu_);  // null: not yet asked for
  std::chrono::steady_clock::time_point no_beside_until_ TUTTI_GUARDED_BY(mu_){};
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  std::unordered_set<std::shared_ptr<ClientCall>> calls_ TUTTI_GUARDED_BY(mu_);
  int parts_ TUTTI_GUARDED_BY(mu_) = 0;  // on their way
  std::deque<std::function<void()>> waiting_parts_ TUTTI_GUARDED_BY(mu_);
  bool asking_ TUTTI_GUARDED_BY(mu_) = false;  // a thread goes through them
};

}  // namespace tutti::rpc_internal

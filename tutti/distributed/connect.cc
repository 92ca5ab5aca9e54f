// connect() and reset(): a client and its way to a master.
#include <future>
#include <utility>

#include "tutti/core/thread_pool.h"
#include "tutti/distributed/internal/address.h"
#include "tutti/distributed/internal/client_session.h"
#include "tutti/distributed/internal/leased_master.h"
#include "tutti/distributed/master_interface.h"
#include "tutti/distributed/peers.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/distributed/server.h"
#include "tutti/distributed/task_environment.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti {
namespace {

// Long enough for a cluster whose tasks are started by hand, and not for ever.
constexpr std::chrono::minutes kCreateTimeout{10};

// The threads and ways of one client. The master is a peer like those of a task: greeted, watched, and reached over
// shared memory where it is on the same host.
class Client {
 public:
  Client(const std::string& target, const std::string& address, const ConnectOptions& options)
      : grpc_(std::make_unique<GrpcClient>(GrpcClient::Options{
            .security = options.security, .keepalive_timeout = keepalive_timeout(*options.lease)})) {
    PeersOptions peers;
    peers.addresses = {{target, address}};
    peers.token = options.security.join_token;
    peers.health.lease = *options.lease;
    peers.clock = clock_.get();
    peers.log = options.log;
    peers.dial = [this](const std::string& to, const std::string&) { return grpc_->channel(to); };
    if (options.shared_memory) make_shared_memory(options.security.join_token, peers);
    peers_ = std::make_unique<Peers>(std::move(peers));
    channel_ = *peers_->channel(target);
  }
  ~Client() {
    peers_->stop(cancelled("the session ended"));
    grpc_.reset();
    if (shm_) shm_->stop();
    errands_.reset();
  }

  Clock& clock() { return *clock_; }
  const std::shared_ptr<Channel>& channel() const { return channel_; }
  // As RemoteSessionOptions has it; null where there is no shared memory. Of use as long as the client lives.
  std::function<void(const void*, const std::atomic<bool>&, std::chrono::nanoseconds)> help() {
    if (!shm_) return nullptr;
    return [shm = shm_.get()](const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience) {
      shm->help(waiter, done, patience);
    };
  }

 private:
  void make_shared_memory(const std::string& secret, PeersOptions& peers) {
    ShmOptions shm;
    shm.secret = secret;
    shm.clock = clock_.get();
    shm.threads = 2;
    shm.polls = false;  // who waits looks
    auto made = ShmTransport::create(shm, nullptr);
    if (!made.ok()) return;  // gRPC it is
    shm_ = *std::move(made);
    errands_ = std::make_unique<ThreadPool>("tutti_client", 1);
    peers.host_id = ShmTransport::host_id();
    peers.dial_fast = [this](const HelloReply& peer, std::function<void(Status)> on_lost) {
      return shm_->connect(peer.shm_name, std::move(on_lost), {.task = peer.your_task, .ticket = peer.shm_ticket});
    };
    peers.run = [this](std::function<void()> work) { errands_->schedule(std::move(work)); };
  }

  const std::unique_ptr<Clock> clock_ = make_system_clock();
  std::unique_ptr<GrpcClient> grpc_;
  std::unique_ptr<ShmTransport> shm_;    // null: none
  std::unique_ptr<ThreadPool> errands_;  // connecting the fast way
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<Channel> channel_;
};

// A session that brings its client's threads along: they end after it, on the thread that ends it.
class ClientSession : public Session {
 public:
  ClientSession(std::unique_ptr<Client> client, std::unique_ptr<Session> session)
      : client_(std::move(client)), session_(std::move(session)) {}
  ~ClientSession() override { (void)session_->close(); }

  Result<CallableId> make_callable(const Signature& signature) override { return session_->make_callable(signature); }
  Result<std::vector<Tensor>> run_callable(CallableId callable, std::vector<Tensor> feeds,
                                           const RunOptions& options) override {
    return session_->run_callable(callable, std::move(feeds), options);
  }
  void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                          Done done) override {
    session_->run_callable_async(callable, std::move(feeds), options, std::move(done));
  }
  Status release_callable(CallableId callable) override { return session_->release_callable(callable); }
  Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options) override {
    return session_->partial_run_setup(signature, options);
  }
  Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                          const std::vector<TensorName>& fetches) override {
    return session_->partial_run(handle, feeds, fetches);
  }
  Status extend(std::string_view graph_def) override { return session_->extend(graph_def); }
  std::vector<std::string> list_devices() override { return session_->list_devices(); }
  Status close() override { return session_->close(); }

 private:
  const std::unique_ptr<Client> client_;
  const std::unique_ptr<Session> session_;
};

CallOptions call_options(const ConnectOptions& options, Clock& clock) {
  CallOptions call;
  call.wait_for_ready = options.wait_for_ready;
  if (options.operation_timeout.count() > 0) call.deadline = clock.now() + options.operation_timeout;
  return call;
}

}  // namespace

Status check_lease(std::chrono::milliseconds lease) {
  if (lease >= kShortestLease && lease <= kLongestLease) return {};
  return invalid_argument("a lease of ", lease.count(), " ms is not from ", kShortestLease.count(), " to ",
                          kLongestLease.count(), " ms");
}

std::chrono::milliseconds keepalive_timeout(std::chrono::milliseconds lease) {
  return lease + std::chrono::seconds(10);
}

RemoteSessionOptions remote_session_options(const std::string& target, const ConnectOptions& options, Clock* clock) {
  RemoteSessionOptions remote;
  remote.config.device_filters = options.device_filters;
  remote.config.allow_soft_placement = options.allow_soft_placement;
  remote.config.log_device_placement = options.log_device_placement;
  remote.config.operation_timeout = options.operation_timeout;
  remote.config.isolate_session_state = options.isolate_session_state;
  const bool limited = options.operation_timeout.count() > 0;
  remote.create_timeout = options.create_timeout.value_or(limited ? options.operation_timeout : kCreateTimeout);
  remote.create_cancellation = options.cancellation;
  remote.target = target;
  remote.wait_for_ready = options.wait_for_ready;
  remote.clock = clock;
  return remote;
}

Result<std::unique_ptr<Session>> connect(const std::string& target, Graph& graph, const ConnectOptions& given) {
  ConnectOptions options = given;
  options.security = with_token_from_env(std::move(options.security));
  TUTTI_ASSIGN_OR_RETURN(const std::string address, target_address(target));
  TUTTI_ASSIGN_OR_RETURN(options.lease, lease_of(options));
  TUTTI_RETURN_IF_ERROR(check_lease(*options.lease));
  auto client = std::make_unique<Client>(target, address, options);
  auto master = make_leased_master(make_remote_master(client->channel()), client->channel(), client->clock());
  RemoteSessionOptions remote = remote_session_options(target, options, &client->clock());
  remote.help = client->help();
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         make_remote_session(std::move(master), graph, std::move(remote)));
  return std::unique_ptr<Session>(std::make_unique<ClientSession>(std::move(client), std::move(session)));
}

Status reset(const std::string& target, const std::vector<std::string>& containers, const ConnectOptions& given) {
  ConnectOptions options = given;
  options.security = with_token_from_env(std::move(options.security));
  TUTTI_ASSIGN_OR_RETURN(const std::string address, target_address(target));
  TUTTI_ASSIGN_OR_RETURN(options.lease, lease_of(options));
  TUTTI_RETURN_IF_ERROR(check_lease(*options.lease));
  Client client(target, address, options);
  const auto master = make_remote_master(client.channel());
  const auto ended = std::make_shared<std::promise<Status>>();
  master->reset({containers, options.device_filters}, call_options(options, client.clock()),
                [ended](const Result<EmptyMessage>& reply) { ended->set_value(reply.status()); });
  return ended->get_future().get();
}

}  // namespace tutti

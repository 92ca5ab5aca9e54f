#include "tutti/distributed/server.h"

#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"
#include "tutti/core/thread_pool.h"
#include "tutti/core/thread_setup.h"
#include "tutti/distributed/data_directories.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/internal/address.h"
#include "tutti/distributed/internal/client_session.h"
#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/master.h"
#include "tutti/distributed/peers.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/distributed/services.h"
#include "tutti/distributed/task_environment.h"
#include "tutti/distributed/task_service.h"
#include "tutti/distributed/worker.h"
#include "tutti/runtime/task_session.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti {
namespace {

// What TensorFlow says of a CPU; nothing is limited by it.
constexpr std::int64_t kCpuMemoryLimit = std::int64_t{256} << 20;

// What can be cancelled has ended long before, and calls that are being answered have a second.
constexpr std::chrono::seconds kStopPatience{2};

// Which task of the cluster a server is, as far as it may be left open.
Status choose_task(ServerOptions& options) {
  const auto& jobs = options.cluster.tasks();
  if (options.job.empty()) {
    if (jobs.size() != 1) {
      return invalid_argument("a job must be named: the cluster has ", jobs.size(), " (",
                              str_join(options.cluster.jobs(), ", "), ")");
    }
    options.job = jobs.begin()->first;
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int> indices, options.cluster.task_indices(options.job));
  if (options.task < 0) {
    if (indices.size() != 1) {
      return invalid_argument("a task index must be given: the job \"", options.job, "\" has ", indices.size(),
                              " tasks");
    }
    options.task = indices.front();
  }
  return options.cluster.task_address(options.job, options.task).status();
}

Status check_addresses(const ClusterSpec& cluster) {
  for (const auto& [task, address] : task_addresses(cluster)) {
    if (const auto parsed = Address::parse(address); !parsed.ok()) return parsed.status().with_context(task);
  }
  return {};
}

// Where a transport finds the handler that is made after it.
class Door : public CallHandler {
 public:
  void open(CallHandler& handler) { handler_.store(&handler, std::memory_order_release); }
  void handle(IncomingCall call, Reply reply) override {
    CallHandler* const handler = handler_.load(std::memory_order_acquire);
    if (handler == nullptr) return reply(unavailable("this task is starting"), {});
    handler->handle(std::move(call), std::move(reply));
  }

 private:
  std::atomic<CallHandler*> handler_{nullptr};  // release/acquire: who sees it sees what it was made of
};

// Each connection takes two files, and the soft limit of a shell is a thousand.
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // what the system refuses is no reason not to serve
}

}  // namespace

// The members stand in the order in which they are needed: each may use those before it, and what is called is stopped
// before any of them goes.
class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(ServerOptions options)
      : options_(std::move(options)),
        task_(task_name(options_.job, options_.task)),
        incarnation_(random_incarnation()) {
    if (!options_.log) options_.log = log_to_stderr(LogLevel::kInfo);
  }

  Status start() {
    TUTTI_ASSIGN_OR_RETURN(const std::string own, options_.cluster.task_address(options_.job, options_.task));
    TUTTI_ASSIGN_OR_RETURN(Address address, Address::parse(own));
    const std::string listen = options_.listen.empty() ? own : options_.listen;
    TUTTI_ASSIGN_OR_RETURN(const Address bound, Address::parse(listen));
    TUTTI_RETURN_IF_ERROR(open_files(bound.is_loopback()));
    make_runtime();
    TUTTI_RETURN_IF_ERROR(make_shared_memory());
    grpc_ = std::make_unique<GrpcServer>(GrpcServerOptions{.address = listen,
                                                           .security = options_.security,
                                                           .limits = options_.limits,
                                                           .keepalive_timeout = keepalive_timeout(options_.lease),
                                                           .log = line_log()});
    make_peers();
    make_services();
    TUTTI_RETURN_IF_ERROR(grpc_->open(*service_));
    address.port = grpc_->port();
    target_ = str_cat("grpc://", address.to_string());
    return {};
  }

  const std::string& target() const { return target_; }
  const std::string& task() const { return task_; }

  Status set_addresses(const ClusterSpec& cluster) {
    TUTTI_RETURN_IF_ERROR(check_addresses(cluster));
    return peers_->set_addresses(task_addresses(cluster));
  }

  Result<std::unique_ptr<Session>> connect(Graph& graph, const ConnectOptions& options) {
    std::shared_ptr<MasterInterface> master(shared_from_this(), master_.get());
    return make_remote_session(std::move(master), graph, remote_session_options(target_, options, clock_.get()));
  }

  void join() {
    MutexLock lock(mu_);
    while (!ended_ && !abandoned_) all_ended_.wait(mu_);
  }

  // On a thread of its own, which can be left behind: a disk that hangs gives no thread back.
  bool stop() {
    const auto limit = std::chrono::steady_clock::now() + kStopPatience;
    {
      MutexLock lock(mu_);
      if (std::exchange(stopping_, true)) {
        while (!ended_ && !abandoned_) all_ended_.wait(mu_);
        return ended_;
      }
    }
    std::thread stopper([this] {
      begin_thread("tutti_stop");
      stop_parts();
      std::shared_ptr<Impl> last;  // given up after the lock
      MutexLock lock(mu_);
      ended_ = true;
      last.swap(abandoned_self_);
      all_ended_.notify_all();
    });
    if (wait_ended(limit)) {
      stopper.join();
      return true;
    }
    stopper.detach();
    line_log().warning(str_cat("stopped, but something has not ended within ", kStopPatience.count(),
                               " s: a file or a kernel that cannot be cancelled; it is abandoned"));
    return false;
  }

 private:
  // False, after `limit`: what still runs keeps this object alive, until it ends or the process does.
  bool wait_ended(std::chrono::steady_clock::time_point limit) {
    MutexLock lock(mu_);
    while (!ended_ && std::chrono::steady_clock::now() < limit) all_ended_.wait_until(mu_, limit);
    if (ended_) return true;
    abandoned_ = true;
    abandoned_self_ = shared_from_this();
    all_ended_.notify_all();
    return false;
  }

  // First what runs, so that callers hear why; then the ways out and in.
  void stop_parts() {
    const Status cause = unavailable(task_, " is stopping");
    if (master_) master_->stop(cause);
    if (worker_) worker_->stop(cause);
    if (service_) service_->stop();
    if (peers_) peers_->stop(cause);
    if (grpc_) grpc_->stop();
    if (shm_) shm_->stop();
    client_.reset();  // before what its calls' ends may use
    errands_.reset();
  }

  TaskLog line_log() const {
    return TaskLog([log = options_.log, task = task_](LogLevel level, const std::string& line) {
      log(level, str_cat(task, ": ", line));
    });
  }

  Status open_files(bool loopback) {
    if (options_.data_directories.empty() && loopback) return {};
    FileSystem& base = options_.runtime.files ? *options_.runtime.files : local_file_system();
    TUTTI_ASSIGN_OR_RETURN(files_, make_data_directories(base, options_.data_directories));
    return {};
  }

  void make_runtime() {
    RuntimeOptions runtime = options_.runtime;
    runtime.job = options_.job;
    runtime.task = options_.task;
    runtime.clock = clock_.get();
    if (files_) runtime.files = files_.get();
    runtime_ = std::make_unique<LocalRuntime>(runtime);
  }

  // A host where it does not work is served over gRPC alone.
  Status make_shared_memory() {
    if (!options_.shared_memory) return {};
    ShmOptions shm;
    shm.task = task_;
    shm.secret = options_.security.join_token;
    shm.tickets = !options_.security.ca_file.empty();
    shm.message_bytes = options_.limits.message_bytes;
    shm.connection_bytes = options_.limits.connection_bytes;
    shm.clock = clock_.get();
    // They wait in a table or take out of it.
    shm.quick = [](std::string_view method) {
      return method == methods::kRecvTensors || method == methods::kRecvTensor;
    };
    auto made = ShmTransport::create(shm, &door_);
    if (made.ok()) {
      shm_ = *std::move(made);
    } else {
      line_log().warning(str_cat("no shared memory, gRPC is used instead: ", made.status().message()));
    }
    return {};
  }

  void make_peers() {
    client_ = std::make_unique<GrpcClient>(GrpcClient::Options{.security = options_.security,
                                                               .server = grpc_.get(),
                                                               .message_bytes = options_.limits.message_bytes,
                                                               .keepalive_timeout = keepalive_timeout(options_.lease)});
    errands_ = std::make_unique<ThreadPool>("tutti_peers", 1);
    PeersOptions peers;
    peers.addresses = task_addresses(options_.cluster);
    peers.task = task_;
    peers.incarnation = incarnation_;
    peers.token = options_.security.join_token;
    peers.health.lease = options_.lease;
    peers.clock = clock_.get();
    peers.dial = [this](const std::string& address, const std::string& task) {
      return client_->channel(address, task);
    };
    if (shm_) {
      peers.host_id = ShmTransport::host_id();
      peers.dial_fast = [this](const HelloReply& peer, std::function<void(Status)> on_lost) {
        return shm_->connect(peer.shm_name, std::move(on_lost), {.task = peer.your_task, .ticket = peer.shm_ticket});
      };
      peers.run = [this](std::function<void()> work) { errands_->schedule(std::move(work)); };
    }
    peers.gone = [this](const std::string& task, const Status& cause, std::uint64_t incarnation) {
      const bool by_master = master_->lose_task(task, cause);
      const bool by_worker = worker_->forget_task(task, cause, incarnation);
      return by_master || by_worker;
    };
    peers.log = line_log();
    peers_ = std::make_unique<Peers>(std::move(peers));
  }

  // Compiling a graph may take seconds, in which the transports' threads must answer heartbeats.
  std::function<void(std::function<void()>)> computing() {
    return [this](std::function<void()> work) { runtime_->compiling().run(std::move(work)); };
  }

  WorkerOptions worker_options() {
    WorkerOptions worker;
    worker.task = task_;
    for (const auto& device : runtime_->devices()) {
      worker.devices.push_back({device.to_string(), *device.type, kCpuMemoryLimit, incarnation_, {}});
    }
    worker.make_session = [this](TaskSessionOptions options) {
      // What goes straight to another task crosses without a copy, where that is on this host.
      if (shm_) options.sent_values = &shm_->shared_allocator();
      return make_task_session(*runtime_, options);
    };
    worker.reset_containers = [this](const std::vector<std::string>& containers) { runtime_->reset(containers); };
    worker.peers = peers_.get();
    worker.clock = clock_.get();
    worker.step_bytes = options_.limits.step_bytes;
    worker.run = computing();
    worker.log = line_log();
    return worker;
  }

  void make_services() {
    worker_ = std::make_shared<Worker>(worker_options());
    peers_->set_local(worker_);
    MasterOptions master;
    master.task = task_;
    master.workers = peers_.get();
    master.clock = clock_.get();
    master.default_config = options_.default_config;
    master.session_idle_limit = options_.session_idle_limit;
    master.max_sessions = options_.limits.sessions;
    master.run = computing();
    master.log = line_log();
    master_ = std::make_unique<Master>(std::move(master));
    services_ = make_task_services(*master_, *worker_);
    TaskServiceOptions service;
    service.hello.self.task = task_;
    service.hello.self.incarnation = incarnation_;
    if (shm_) {
      service.hello.self.host_id = ShmTransport::host_id();
      service.hello.self.shm_name = shm_->name();
      service.shm_ticket = [this](const std::string& task) { return shm_->ticket(task); };
    }
    service.hello.token = options_.security.join_token;
    service.leases.renew = options_.lease;
    service.clock = clock_.get();
    service.heard = [this](const std::string& task, std::uint64_t incarnation) { peers_->heard(task, incarnation); };
    service.certificates = !options_.security.ca_file.empty();
    service.leased = [this](const std::string& session, bool held) { master_->lease_session(session, held); };
    service.abandon = [this](const std::string& session) { master_->abandon_session(session); };
    service.log = line_log();
    service_ = std::make_unique<TaskService>(std::move(service), *services_);
    door_.open(*service_);
  }

  ServerOptions options_;
  const std::string task_;
  const std::uint64_t incarnation_;
  std::string target_;  // constant once started

  const std::unique_ptr<Clock> clock_ = make_system_clock();
  std::unique_ptr<FileSystem> files_;  // null: the runtime's own
  Door door_;
  std::unique_ptr<ShmTransport> shm_;  // null: none. Outlives the runtime, whose kernels allocate from it
  std::unique_ptr<LocalRuntime> runtime_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<GrpcClient> client_;
  std::unique_ptr<ThreadPool> errands_;  // connecting the fast way
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
  std::unique_ptr<CallHandler> services_;
  std::unique_ptr<TaskService> service_;

  Mutex mu_;
  CondVar all_ended_;
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  bool ended_ TUTTI_GUARDED_BY(mu_) = false;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;                // stop() has not waited for the end
  std::shared_ptr<Impl> abandoned_self_ TUTTI_GUARDED_BY(mu_);  // this, from then to the end
};

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  TUTTI_RETURN_IF_ERROR(choose_task(options));
  TUTTI_RETURN_IF_ERROR(check_addresses(options.cluster));
  TUTTI_RETURN_IF_ERROR(check_lease(options.lease));
  options.security = with_token_from_env(std::move(options.security));
  allow_many_files();
  auto impl = std::make_shared<Impl>(std::move(options));
  const Status started = impl->start();
  if (!started.ok()) {
    impl->stop();
    return started.with_context(impl->task());
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::string& Server::target() const { return impl_->target(); }

const std::string& Server::task() const { return impl_->task(); }

void Server::join() { impl_->join(); }

bool Server::stop() { return impl_->stop(); }

Status Server::set_addresses(const ClusterSpec& cluster) { return impl_->set_addresses(cluster); }

Result<std::unique_ptr<Session>> Server::connect(Graph& graph, const ConnectOptions& options) {
  return impl_->connect(graph, options);
}

}  // namespace tutti

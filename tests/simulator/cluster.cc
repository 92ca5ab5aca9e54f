#include "cluster.h"

#include <algorithm>
#include <utility>

#include "tutti/distributed/codec.h"
#include "tutti/distributed/internal/leased_master.h"
#include "tutti/distributed/master.h"
#include "tutti/distributed/peers.h"
#include "tutti/distributed/services.h"
#include "tutti/distributed/task_service.h"
#include "tutti/distributed/worker.h"

namespace tutti::sim {
namespace {

// What every task of the cluster proves to know.
const std::string kToken = "open sesame";

// Short beside a schedule, so that cut links and silent tasks come to its end.
constexpr std::chrono::seconds kLease(1);
// Shorter than some messages take.
constexpr std::chrono::milliseconds kTooShortLease(2);

std::string device_of(const std::string& task) { return task + "/device:CPU:0"; }

// Calls to workers and masters with one mistake in them.
class Mistaken : public CallHandler {
 public:
  Mistaken(Planted planted, std::mt19937_64& random, CallHandler& right)
      : planted_(planted), random_(random), right_(right) {}

  void handle(IncomingCall call, Reply reply) override {
    if (planted_ == Planted::kRepeatsAreServed && call.method.ends_with("/RunStep"))
      forget_identity<RunStepRequest>(call);
    if (planted_ == Planted::kRepeatsAreServed && call.method.ends_with("/RunCallable"))
      forget_identity<RunCallableRequest>(call);
    if (planted_ == Planted::kStepsMixed && call.method.ends_with("/RecvTensor")) mix_steps<RecvTensorRequest>(call);
    if (planted_ == Planted::kStepsMixed && call.method.ends_with("/RecvTensors")) mix_steps<RecvTensorsRequest>(call);
    if (planted_ == Planted::kNoCleanup && call.method.ends_with("/CleanupGraph")) return reply({}, {});
    if (planted_ == Planted::kNoCleanup && call.method.ends_with("/RunGraph")) forget_ended_steps(call);
    if (planted_ == Planted::kErrorsUnanswered && call.method.find("Master") != std::string_view::npos) {
      return right_.handle(std::move(call), [reply](Status status, Payload answer) {
        if (status.ok()) reply(std::move(status), std::move(answer));
      });
    }
    right_.handle(std::move(call), std::move(reply));
  }

 private:
  // As if each were the first of its kind.
  template <typename Request>
  void forget_identity(IncomingCall& call) {
    Request request;
    if (!decode(call.request, request).ok()) return;
    request.request_id = static_cast<std::int64_t>(random_() >> 1);
    call.request = *encode(request);
  }

  void forget_ended_steps(IncomingCall& call) {
    RunGraphRequest request;
    if (!decode(call.request, request).ok()) return;
    request.ended_steps.clear();
    call.request = *encode(request);
  }

  template <typename Request>
  void mix_steps(IncomingCall& call) {
    Request request;
    if (!decode(call.request, request).ok()) return;
    if (last_step_ != 0 && random_() % 4 == 0)
      std::swap(request.step_id, last_step_);
    else
      last_step_ = request.step_id;
    call.request = *encode(request);
  }

  const Planted planted_;
  std::mt19937_64& random_;
  CallHandler& right_;
  std::int64_t last_step_ = 0;
};

}  // namespace

// One process of the cluster, put together as Server does it.
class SimTask {
 public:
  SimTask(Cluster& cluster, std::string name, std::int64_t life)
      : cluster_(cluster), name_(std::move(name)), incarnation_(cluster_.new_incarnation(life)) {
    state_.task = name_;
    state_.life = life;
    peers_ = std::make_unique<Peers>(peers_options());
    worker_ = std::make_shared<Worker>(worker_options());
    peers_->set_local(worker_);
    master_ = std::make_unique<Master>(MasterOptions{
        .task = name_, .workers = peers_.get(), .clock = &cluster_.clock(), .seed = cluster_.random()() | 1});
    services_ = make_task_services(*master_, *worker_);
    mistaken_ = std::make_unique<Mistaken>(cluster_.planted(), cluster_.random(), *services_);
    service_ = std::make_unique<TaskService>(service_options(), *mistaken_);
    cluster_.network().start(name_, *service_);
  }

  ~SimTask() {
    *state_.alive = false;
    const Status cause = unavailable(name_, " has ended");
    master_->stop(cause);
    worker_->stop(cause);
    service_->stop();
    peers_->stop(cause);
  }

  // The process dies and another takes its place; with the mistake kSessionsSurviveCrash it is not quite another.
  void restart_in_place(std::int64_t life) {
    state_.life = life;
    state_.variables.clear();
    cluster_.network().start(name_, *service_);
  }

  const std::string& name() const { return name_; }
  Worker& worker() { return *worker_; }

 private:
  PeersOptions peers_options() {
    PeersOptions options;
    for (const std::string& task : cluster_.tasks()) options.addresses[task] = task;
    options.task = name_;
    options.incarnation = incarnation_;
    options.token = kToken;
    options.health.lease = kLease;
    if (cluster_.planted() == Planted::kPeersDoubted) options.health.lease = kTooShortLease;
    options.clock = &cluster_.clock();
    options.dial = [this](const std::string& address, const std::string&) {
      return cluster_.network().channel(name_, address);
    };
    options.gone = [this](const std::string& task, const Status& cause, std::uint64_t incarnation) {
      if (incarnation != 0) check_restart(task, incarnation);
      const bool by_master = master_->lose_task(task, cause);
      const bool by_worker = worker_->forget_task(task, cause, incarnation);
      return by_master || by_worker;
    };
    return options;
  }

  WorkerOptions worker_options() {
    return {
        .task = name_,
        .devices = {{.name = device_of(name_), .type = "CPU", .memory_limit = 1 << 28, .incarnation = incarnation_}},
        .make_session =
            [this](const TaskSessionOptions&) {
              return make_sim_session(cluster_.clock(), cluster_.random(), state_, cluster_.observations());
            },
        .reset_containers = [this](const std::vector<std::string>&) { state_.variables.clear(); },
        .peers = peers_.get(),
        .clock = &cluster_.clock(),
        .remembered = kRemembered};
  }

  TaskServiceOptions service_options() {
    TaskServiceOptions options;
    options.hello.self.task = name_;
    options.hello.self.incarnation = incarnation_;
    options.hello.token = kToken;
    options.leases = kLeases;
    if (cluster_.planted() == Planted::kClientsImmortal) options.leases.renew = options.leases.grace = kForever;
    if (cluster_.planted() == Planted::kLeasesShort) options.leases.renew = Duration(1);
    options.clock = &cluster_.clock();
    options.heard = [this](const std::string& task, std::uint64_t incarnation) { peers_->heard(task, incarnation); };
    options.leased = [this](const std::string& session, bool held) { master_->lease_session(session, held); };
    options.abandon = [this](const std::string& session) { master_->abandon_session(session); };
    return options;
  }

  void check_restart(const std::string& task, std::uint64_t incarnation) {
    const std::int64_t life = cluster_.life_of(incarnation);
    std::int64_t& newest = newest_[task];
    if (life < newest) {
      cluster_.observations().violations.push_back(
          str_cat(name_, " believes that life ", life, " of ", task, " follows life ", newest));
    }
    newest = std::max(newest, life);
  }

  Cluster& cluster_;
  const std::string name_;
  const std::uint64_t incarnation_;
  SimState state_;
  std::map<std::string, std::int64_t> newest_;  // lives of other tasks that it was told of
  std::unique_ptr<Peers> peers_;
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
  std::unique_ptr<CallHandler> services_;
  std::unique_ptr<Mistaken> mistaken_;
  std::unique_ptr<TaskService> service_;
};

SimClient::SimClient(Cluster& cluster, const std::string& name, const std::string& task) {
  PeersOptions options;
  options.addresses = {{task, task}};
  options.token = kToken;
  options.health.lease = kLease;
  options.clock = &cluster.clock();
  options.dial = [&cluster, name](const std::string& address, const std::string&) {
    return cluster.network().channel(name, address);
  };
  peers_ = std::make_unique<Peers>(std::move(options));
  const std::shared_ptr<Channel> channel = *peers_->channel(task);
  master_ = make_leased_master(make_remote_master(channel), channel, cluster.clock());
}

SimClient::~SimClient() { peers_->stop(cancelled("the client has ended")); }

Cluster::Cluster(std::vector<std::string> tasks, std::uint64_t seed, Planted planted)
    : random_(seed), planted_(planted), names_(std::move(tasks)), network_(clock_, random_, {}) {
  for (const std::string& task : names_) start(task);
}

Cluster::~Cluster() {
  for (const std::string& task : names_) network_.crash(task);
  tasks_.clear();
  dead_.clear();
}

void Cluster::start(const std::string& task) {
  const std::int64_t life = ++lives_[task];
  for (auto it = dead_.begin(); planted_ == Planted::kSessionsSurviveCrash && it != dead_.end(); ++it) {
    if ((*it)->name() != task) continue;
    tasks_[task] = std::move(*it);
    dead_.erase(it);
    return tasks_[task]->restart_in_place(life);
  }
  tasks_[task] = std::make_unique<SimTask>(*this, task, life);
}

void Cluster::crash(const std::string& task) {
  network_.crash(task);
  dead_.push_back(std::move(tasks_[task]));
  tasks_.erase(task);
  if (planted_ != Planted::kSessionsSurviveCrash) dead_.clear();
}

std::int64_t Cluster::life(const std::string& task) const {
  const auto it = lives_.find(task);
  return it == lives_.end() ? 0 : it->second;
}

std::size_t Cluster::open_steps(const std::string& task) const {
  const auto it = tasks_.find(task);
  return it == tasks_.end() ? 0 : it->second->worker().open_steps();
}

std::uint64_t Cluster::new_incarnation(std::int64_t life) {
  const std::uint64_t incarnation = random_() | 1;
  incarnations_[incarnation] = life;
  return incarnation;
}

}  // namespace tutti::sim

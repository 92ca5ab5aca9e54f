#include "cluster.h"

#include <utility>

#include "tutti/distributed/codec.h"
#include "tutti/distributed/master.h"
#include "tutti/distributed/peer_health.h"
#include "tutti/distributed/services.h"
#include "tutti/distributed/worker.h"

namespace tutti::sim {
namespace {

constexpr std::string_view kLeaseMethod = "/sim/Lease";

std::string device_of(const std::string& task) { return task + "/device:CPU:0"; }

// Calls to workers and masters with one mistake in them.
class Mistaken : public CallHandler {
 public:
  Mistaken(Planted planted, std::mt19937_64& random, CallHandler& right)
      : planted_(planted), random_(random), right_(right) {}

  void handle(IncomingCall call, Reply reply) override {
    if (planted_ == Planted::kRepeatsAreServed && call.method.ends_with("/RunGraph")) forget_identity(call);
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
  // As if each were the first of its kind: a step of its own, under an id of its own.
  void forget_identity(IncomingCall& call) {
    RunGraphRequest request;
    if (!decode(call.request, request).ok()) return;
    request.request_id = static_cast<std::int64_t>(random_() >> 1);
    if (!seen_.insert(request.step_id).second) request.step_id = static_cast<std::int64_t>(random_() >> 8);
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
  std::set<std::int64_t> seen_;
  std::int64_t last_step_ = 0;
};

}  // namespace

// One process of the cluster.
class SimTask : private WorkerDirectory, private CallHandler {
 public:
  SimTask(Cluster& cluster, std::string name, std::int64_t life) : cluster_(cluster), name_(std::move(name)) {
    state_.task = name_;
    state_.life = life;
    incarnation_ = cluster_.random()() | 1;
    worker_ = std::make_unique<Worker>(WorkerOptions{
        .task = name_,
        .devices = {{.name = device_of(name_), .type = "CPU", .memory_limit = 1 << 28, .incarnation = incarnation_}},
        .make_session =
            [this](const TaskSessionOptions&) {
              return make_sim_session(cluster_.clock(), cluster_.random(), state_, cluster_.observations());
            },
        .reset_containers = [this](const std::vector<std::string>&) { state_.variables.clear(); },
        .peers = this,
        .clock = &cluster_.clock(),
        .remembered = kRemembered});
    master_ = std::make_unique<Master>(
        MasterOptions{.task = name_, .workers = this, .clock = &cluster_.clock(), .seed = cluster_.random()() | 1});
    services_ = make_task_services(*master_, *worker_);
    mistaken_ = std::make_unique<Mistaken>(cluster_.planted(), cluster_.random(), *services_);
    cluster_.network().start(name_, *this);
    for (const std::string& task : cluster_.tasks()) {
      if (task != name_) act(health_.watch(task, cluster_.clock().now()));
    }
  }

  ~SimTask() override {
    *state_.alive = false;
    cluster_.clock().cancel_timer(timer_);
    master_->stop(unavailable(name_, " has ended"));
    worker_->stop(unavailable(name_, " has ended"));
  }

  // The process dies and another takes its place; with the mistake kSessionsSurviveCrash it is not quite another.
  void restart_in_place(std::int64_t life) {
    state_.life = life;
    state_.variables.clear();
    cluster_.network().start(name_, *this);
  }

  const std::string& name() const { return name_; }
  Worker& worker() { return *worker_; }

 private:
  void handle(IncomingCall call, Reply reply) override {
    if (call.method != kLeaseMethod) return mistaken_->handle(std::move(call), std::move(reply));
    reply({}, Payload(std::to_string(incarnation_)));
  }

  Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task) override {
    // The own one is not owned by who asks.
    if (task == name_) return std::shared_ptr<WorkerInterface>(std::shared_ptr<void>(), worker_.get());
    auto& remote = remote_[task];
    if (!remote) remote = make_remote_worker(cluster_.network().channel(name_, task));
    return remote;
  }

  std::vector<std::string> tasks() const override { return cluster_.tasks(); }

  void act(const PeerHealth::Events& events) {
    for (const PeerEvent& event : events) {
      if (event.kind == PeerEvent::Kind::kAsk) ask(event.task);
      if (event.kind != PeerEvent::Kind::kLost && event.kind != PeerEvent::Kind::kRestarted) continue;
      master_->lose_task(event.task, event.cause);
      worker_->forget_task(event.task, event.cause);
    }
    cluster_.clock().cancel_timer(std::exchange(timer_, 0));
    if (const std::optional<TimePoint> next = health_.next_tick()) {
      timer_ = cluster_.clock().call_at(*next, [this, alive = state_.alive] {
        if (!*alive) return;
        timer_ = 0;
        act(health_.tick(cluster_.clock().now()));
      });
    }
  }

  void ask(const std::string& task) {
    auto& channel = lease_channels_[task];
    if (!channel) channel = cluster_.network().channel(name_, task);
    CallOptions options;
    options.deadline = cluster_.clock().now() + std::chrono::milliseconds(500);
    channel->call(kLeaseMethod, {}, options,
                  [this, task, alive = state_.alive](const Status& status, const Payload& reply) {
                    if (!*alive) return;
                    const TimePoint now = cluster_.clock().now();
                    act(status.ok() ? health_.heard(task, std::stoull(reply.flatten()), now)
                                    : health_.connection_failed(task, connect_stage(status), status, now));
                  });
  }

  Cluster& cluster_;
  const std::string name_;
  std::uint64_t incarnation_ = 0;
  SimState state_;
  PeerHealth health_;
  Clock::TimerId timer_ = 0;
  std::map<std::string, std::shared_ptr<Channel>> lease_channels_;
  std::map<std::string, std::shared_ptr<WorkerInterface>> remote_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
  std::unique_ptr<CallHandler> services_;
  std::unique_ptr<Mistaken> mistaken_;
};

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

std::shared_ptr<MasterInterface> Cluster::connect(const std::string& client, const std::string& task) {
  return make_remote_master(network_.channel(client, task));
}

}  // namespace tutti::sim

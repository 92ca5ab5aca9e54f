#include "schedule.h"

#include <algorithm>
#include <utility>

#include "sim_thread.h"
#include "tutti/distributed/remote_session.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::sim {
namespace {

using std::chrono::milliseconds;

// From the repair until everybody knows of it: what is late has come, and what stood on a broken link has ended.
constexpr milliseconds kSettled(1500);
constexpr std::chrono::seconds kAnswered(4);
constexpr milliseconds kMoment(20);

const std::vector<std::string> kTasks{"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1",
                                      "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"};
const std::vector<std::string> kMasters{kTasks[2], kTasks[3]};
const std::vector<std::string> kAdders{"add0", "add1"};  // one on each ps

// A token is fed on the client's worker, added to a variable on each ps, and comes back by way of both and of the other
// worker: every link carries something. What each ps got goes to the other worker too, before it is added: of ps 1 that
// worker receives two values, made at different times.
std::unique_ptr<Graph> training_graph() {
  auto made = std::make_unique<Graph>(builtin_ops());
  Graph& graph = *made;
  Output token;
  {
    auto on = graph.device_scope("/job:worker/task:0");
    token = op1("Identity", {placeholder(graph, DType::kInt64, Shape{}, "token")}, {}, "fed");
  }
  Output value = token;
  std::vector<Output> early;
  for (int ps = 0; ps < 2; ++ps) {
    auto on = graph.device_scope(str_cat("/job:ps/task:", ps));
    Output handle =
        add_op(graph, "VarHandleOp", {},
               {{"dtype", DType::kInt64}, {"shape", PartialShape(Shape{})}, {"shared_name", str_cat("v", ps)}},
               str_cat("v", ps))
            ->output();
    early.push_back(op1("Identity", {value}, {}, str_cat("early", ps)));
    Node* add = add_op(graph, "AssignAddVariableOp", {handle, value}, {}, kAdders[static_cast<std::size_t>(ps)]);
    auto after = graph.control_dependencies({add});
    value = op1("Identity", {value}, {}, str_cat("through", ps));
  }
  auto on = graph.device_scope("/job:worker/task:1");
  op1("Identity", {value}, {}, "result");
  op1("AddV2", {early[0], early[1]}, {}, "twice");
  return made;
}

struct Step {
  std::string client;
  std::map<std::string, std::int64_t> lives;  // of the tasks, when its session was there
  bool succeeded = false;
};

class Schedule;

// Makes sessions and runs steps on one master, one thing after another, until it is told to stop. When its process
// crashes, another takes its place.
class Client {
 public:
  Client(Schedule& schedule, std::string name, std::string master, bool patient);
  // Whatever it still waits for is ended by a crash.
  ~Client();

  void stop() { stopping_ = true; }
  // A patient one keeps its session until then.
  void leave() { leaving_ = true; }
  void crash();
  // Patient, stopped, and all its steps were answered.
  bool idle() const { return idle_; }
  // All that it asked was answered, and it has stopped.
  bool finished() const { return thread_.finished(); }
  const std::string& name() const { return name_; }

 private:
  void live();
  void use_session(SimClient& process);
  std::unique_ptr<Session> create(SimClient& process);
  // False: a session is of no use any more.
  bool step(Session& session, Session::CallableId callable);
  RunOptions run_options(const std::shared_ptr<Cancellation>& cancellation);
  void check_values(std::int64_t token, const std::vector<Tensor>& values);
  void pause();
  bool ends() const { return stopping_ || crashed_; }
  void tell(const char* what, const Status& status);

  Schedule& schedule_;
  const std::string name_;
  const std::string master_task_;
  const bool patient_;  // never ends a step before its end
  std::map<std::string, std::int64_t> lives_;
  int processes_ = 0;
  bool stopping_ = false;
  bool idle_ = false;
  bool crashed_ = false;
  std::atomic<bool> leaving_{false};
  SimThread thread_;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, const ScheduleOptions& options)
      : options_(options), cluster(kTasks, seed, options.planted) {}

  ScheduleResult run() {
    start_clients("client", false);
    plan_faults();
    cluster.clock().advance(milliseconds(320));
    repair();
    stop_clients();
    cluster.clock().advance(kSettled);
    check_all(&Client::finished);
    check_new_sessions();
    check_effects();
    check_leftovers();
    result.calls = cluster.network().calls();
    return std::move(result);
  }

  template <typename... Parts>
  void violation(const Parts&... parts) {
    result.violations.push_back(str_cat(parts...));
    trace("VIOLATION ", parts...);
  }
  template <typename... Parts>
  void trace(const Parts&... parts) {
    if (!options_.trace) return;
    const auto ms = std::chrono::duration<double, std::milli>(cluster.clock().now() - start_);
    options_.trace(str_cat(ms.count(), " ms: ", parts...));
  }
  std::uint64_t below(std::uint64_t limit) { return cluster.random()() % limit; }
  Graph& graph() {
    static const std::unique_ptr<Graph> graph = training_graph();
    return *graph;
  }

 private:
  const ScheduleOptions& options_;

 public:
  Cluster cluster;
  ScheduleResult result;
  std::int64_t next_token = 1;
  std::map<std::int64_t, Step> steps;  // by token

 private:
  const TimePoint start_ = cluster.clock().now();

  void start_clients(const std::string& name, bool patient) {
    for (std::size_t i = 0; i < kMasters.size(); ++i) {
      clients_.push_back(std::make_unique<Client>(*this, str_cat(name, i), kMasters[i], patient));
    }
  }

  void stop_clients() {
    for (auto& client : clients_) client->stop();
  }

  // Lets time pass until something holds, but not for longer than `limit`.
  void pass(Duration limit, const std::function<bool()>& until) {
    const TimePoint end = cluster.clock().now() + limit;
    while (!until() && cluster.clock().now() < end) cluster.clock().advance(kMoment);
  }

  // What they have asked must be answered.
  void check_all(bool (Client::*done)() const) {
    const auto is_done = [done](const auto& client) { return client->finished() || ((*client).*done)(); };
    pass(kAnswered, [&] { return std::all_of(clients_.begin(), clients_.end(), is_done); });
    for (auto& client : clients_) {
      if (!is_done(client)) violation(client->name(), " still waits, in peace");
    }
  }

  std::vector<std::unique_ptr<Client>> clients_;

  void plan_faults() {
    const std::uint64_t faults = below(5);
    for (std::uint64_t i = 0; i < faults; ++i) {
      at(milliseconds(below(280)), [this] {
        const std::uint64_t kind = below(8);
        if (kind < 4) return crash();
        if (kind < 6) return cut();
        clients_[below(clients_.size())]->crash();
      });
    }
  }

  void at(Duration delay, std::function<void()> event) {
    cluster.clock().call_at(cluster.clock().now() + delay, std::move(event));
  }

  void crash() {
    const std::string& task = kTasks[below(kTasks.size())];
    if (!cluster.lives(task)) return;
    trace("crash of ", task);
    cluster.crash(task);
    at(milliseconds(1 + below(300)), [this, task] {
      if (cluster.lives(task)) return;
      trace("start of ", task);
      cluster.start(task);
    });
  }

  void cut() {
    const std::string &a = kTasks[below(kTasks.size())], &b = kTasks[below(kTasks.size())];
    if (a == b) return;
    trace("cut between ", a, " and ", b);
    cluster.network().cut(a, b);
    at(milliseconds(1 + below(500)), [this] {
      trace("links heal");
      cluster.network().heal();
    });
  }

  void repair() {
    trace("repair");
    cluster.network().heal();
    cluster.network().calm();
    for (const std::string& task : kTasks) {
      if (!cluster.lives(task)) cluster.start(task);
    }
  }

  void check_new_sessions() {
    const std::int64_t succeeded = result.steps_succeeded, failed = result.steps_failed;
    start_clients("visitor", true);
    cluster.clock().advance(kLeases.hold);
    stop_clients();
    check_all(&Client::idle);
    check_steps();
    for (auto& client : clients_) client->leave();
    check_all(&Client::finished);
    if (result.steps_succeeded == succeeded) violation("no step of new sessions succeeded, in peace");
    if (result.steps_failed != failed)
      violation(result.steps_failed - failed, " steps of new sessions failed, in peace");
  }

  void check_effects() {
    std::map<std::pair<std::int64_t, std::string>, int> counts;  // by token and node
    for (const Effect& effect : cluster.observations().effects) {
      const auto it = steps.find(effect.value);
      if (it == steps.end()) {
        violation(effect.node, " added ", effect.value, ", which nobody fed");
        continue;
      }
      if (++counts[{effect.value, effect.node}] == 2) violation(effect.node, " added ", effect.value, " twice");
      const auto life = it->second.lives.find(effect.task);
      if (life != it->second.lives.end() && effect.life > life->second) {
        violation("the step of ", it->second.client, " with token ", effect.value, " had an effect in life ",
                  effect.life, " of ", effect.task, ", but its session is of life ", life->second);
      }
    }
    for (const auto& [token, step] : steps) {
      for (const std::string& node : kAdders) {
        if (step.succeeded && counts[{token, node}] != 1) {
          violation("the step with token ", token, " succeeded, but ", node, " ran ", counts[{token, node}], " times");
        }
      }
    }
  }

  // That nothing is kept of any, though their sessions may go on.
  void check_steps() {
    const auto keeps_none = [this](const std::string& task) { return cluster.open_steps(task) == 0; };
    // At most beyond the time that ended steps are remembered.
    pass(2 * kRemembered, [&] { return std::all_of(kTasks.begin(), kTasks.end(), keeps_none); });
    for (const std::string& task : kTasks) {
      if (const std::size_t open = cluster.open_steps(task)) violation(task, " still keeps ", open, " steps");
    }
  }

  void check_leftovers() {
    pass(2 * (kLeases.renew + kLeases.grace), [this] { return cluster.observations().sessions == 0; });
    check_steps();
    if (cluster.observations().steps_running != 0) {
      violation(cluster.observations().steps_running, " steps still run, in peace");
    }
    if (cluster.observations().sessions != 0) {
      violation(cluster.observations().sessions, " sessions are left on workers, but no client");
    }
    for (const std::string& what : cluster.observations().violations) violation(what);
  }
};

Client::Client(Schedule& schedule, std::string name, std::string master, bool patient)
    : schedule_(schedule),
      name_(std::move(name)),
      master_task_(std::move(master)),
      patient_(patient),
      thread_(schedule.cluster.clock(), [this] { live(); }) {}

Client::~Client() {
  stop();
  leave();
  crash();
  if (!finished()) schedule_.cluster.clock().advance(std::chrono::seconds(10));
}

void Client::crash() {
  schedule_.trace("crash of ", name_);
  crashed_ = true;
  schedule_.cluster.network().crash(str_cat(name_, ".", processes_));
}

void Client::live() {
  while (!stopping_) {
    crashed_ = false;
    SimClient process(schedule_.cluster, str_cat(name_, ".", ++processes_), master_task_);
    while (!ends()) use_session(process);
  }
}

void Client::use_session(SimClient& process) {
  const std::unique_ptr<Session> session = create(process);
  if (!session) return pause();
  const Result<Session::CallableId> callable =
      session->make_callable({.feeds = {"token:0"}, .fetches = {"result:0", "twice:0"}, .targets = {}});
  tell("a callable", callable.status());
  if (callable.ok()) {
    do {
      if (!step(*session, *callable)) break;
      pause();
    } while (!ends() && schedule_.below(20) != 0);
  }
  idle_ = stopping_;
  if (patient_ && stopping_) thread_.wait_for(leaving_);
  tell("the end of a session", session->close());
}

std::unique_ptr<Session> Client::create(SimClient& process) {
  RemoteSessionOptions options;
  options.clock = &schedule_.cluster.clock();
  options.await = [this](const std::atomic<bool>& answered) { thread_.wait_for(answered); };
  options.seed = schedule_.cluster.random()() | 1;
  if (!patient_ && schedule_.below(2) == 0) options.create_timeout = milliseconds(1 + schedule_.below(2000));
  Result<std::unique_ptr<Session>> session =
      make_remote_session(process.master(), schedule_.graph(), std::move(options));
  tell("a session", session.status());
  if (!session.ok()) return nullptr;
  for (const std::string& task : kTasks) lives_[task] = schedule_.cluster.life(task);
  return *std::move(session);
}

bool Client::step(Session& session, Session::CallableId callable) {
  const std::int64_t token = schedule_.next_token++;
  schedule_.steps[token] = {.client = name_, .lives = lives_};
  struct Answer {
    std::atomic<bool> given{false};
    Status status;
    std::vector<Tensor> values;
  };
  const auto answer = std::make_shared<Answer>();
  const auto cancellation = std::make_shared<Cancellation>();
  session.run_callable_async(callable, {Tensor::scalar(token)}, run_options(cancellation),
                             [this, answer, cancellation, token](Status status, std::vector<Tensor> values) {
                               if (answer->given) schedule_.violation("step ", token, " was answered twice");
                               answer->status = std::move(status);
                               answer->values = std::move(values);
                               answer->given = true;
                             });
  thread_.wait_for(answer->given);
  const Status& status = answer->status;
  tell("a step", status);
  if (status.ok()) {
    ++schedule_.result.steps_succeeded;
    schedule_.steps[token].succeeded = true;
    check_values(token, answer->values);
    return true;
  }
  ++schedule_.result.steps_failed;
  // A session does not repair itself.
  return status.code() != Code::kAborted && status.code() != Code::kUnavailable;
}

// By its handle, or, with a limit, by its names.
RunOptions Client::run_options(const std::shared_ptr<Cancellation>& cancellation) {
  RunOptions options;
  if (schedule_.below(2) == 0) options.timeout = milliseconds(1 + schedule_.below(2000));
  if (patient_ && options.timeout.count() != 0) options.timeout = std::chrono::minutes(1);
  options.cancellation = cancellation.get();
  if (!patient_ && schedule_.below(16) == 0) {
    ManualClock& clock = schedule_.cluster.clock();
    clock.call_at(clock.now() + std::chrono::microseconds(schedule_.below(5000)),
                  [cancellation] { cancellation->cancel(cancelled("the client changed its mind")); });
  }
  return options;
}

void Client::check_values(std::int64_t token, const std::vector<Tensor>& values) {
  const auto is = [&](std::size_t i, std::int64_t wanted) { return values[i].scalar<std::int64_t>() == wanted; };
  if (values.size() == 2 && is(0, token) && is(1, 2 * token)) return;
  std::string given;
  for (const Tensor& value : values) given += str_cat(" ", value.to_string());
  schedule_.violation("the step with token ", token, " gave", given);
}

void Client::pause() {
  if (!ends()) thread_.sleep(milliseconds(1 + schedule_.below(80)));
}

void Client::tell(const char* what, const Status& status) {
  schedule_.trace(name_, " asked for ", what, ": ", status.to_string());
}

}  // namespace

ScheduleResult run_schedule(std::uint64_t seed, const ScheduleOptions& options) {
  return Schedule(seed, options).run();
}

}  // namespace tutti::sim

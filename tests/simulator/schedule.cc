#include "schedule.h"

#include <algorithm>
#include <utility>

#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::sim {
namespace {

using std::chrono::milliseconds;

const std::vector<std::string> kTasks{"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1",
                                      "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"};
const std::vector<std::string> kMasters{kTasks[2], kTasks[3]};
const std::vector<std::string> kAdders{"add0", "add1"};  // one on each ps

// A token is fed on the client's worker, added to a variable on each ps, and comes back by way of both and of the other
// worker: every link carries something. What each ps got goes to the other worker too, before it is added: of ps 1 that
// worker receives two values, made at different times.
std::string training_graph() {
  Graph graph(builtin_ops());
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
  return export_graph_def(graph);
}

struct Step {
  std::string client;
  std::map<std::string, std::int64_t> lives;  // of the tasks, when its session was there
  bool succeeded = false;
};

class Schedule;

// Makes sessions and runs steps on one master, one thing after another, until it is told to stop.
class Client {
 public:
  Client(Schedule& schedule, std::string name, std::string master)
      : schedule_(schedule), name_(std::move(name)), master_task_(std::move(master)) {}

  void go_on();
  void stop() { stopping_ = true; }
  bool waits() const { return waiting_; }
  const std::string& name() const { return name_; }

 private:
  void create();
  void step();
  void close();
  void check_values(std::int64_t token, const NamedTensors& values);
  // Waits a little, then goes on.
  void pause();
  CallOptions call_options(bool wait_for_ready);
  // Notes that `what` was asked; its answer must come once.
  template <typename Reply>
  ReplyDone<Reply> expect(const char* what, std::function<void(Result<Reply>)> then);

  Schedule& schedule_;
  const std::string name_;
  const std::string master_task_;
  std::shared_ptr<MasterInterface> master_;
  std::string handle_;
  std::map<std::string, std::int64_t> lives_;
  bool used_ = false;  // a step was asked of the session
  bool stopping_ = false;
  bool waiting_ = false;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, const ScheduleOptions& options)
      : options_(options), cluster(kTasks, seed, options.planted) {}

  ScheduleResult run() {
    start_clients("client");
    plan_faults();
    cluster.clock().advance(milliseconds(500));
    repair();
    stop_clients(std::chrono::seconds(6));
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
    const auto ms = std::chrono::duration<double, std::milli>(cluster.clock().now() - TimePoint());
    options_.trace(str_cat(ms.count(), " ms: ", parts...));
  }
  std::uint64_t below(std::uint64_t limit) { return cluster.random()() % limit; }
  const std::string& graph_def() {
    static const std::string graph = training_graph();
    return graph;
  }

 private:
  const ScheduleOptions& options_;

 public:
  Cluster cluster;
  ScheduleResult result;
  std::int64_t next_token = 1;
  std::map<std::int64_t, Step> steps;  // by token

 private:
  void start_clients(const std::string& name) {
    for (std::size_t i = 0; i < kMasters.size(); ++i) {
      clients_.push_back(std::make_unique<Client>(*this, str_cat(name, i), kMasters[i]));
      clients_.back()->go_on();
    }
  }

  // What they have asked must be answered within `limit`.
  void stop_clients(Duration limit) {
    for (auto& client : clients_) client->stop();
    cluster.clock().advance(limit);
    for (auto& client : clients_) {
      if (client->waits()) violation(client->name(), " still waits, in peace");
    }
  }

  std::vector<std::unique_ptr<Client>> clients_;

  void plan_faults() {
    const std::uint64_t faults = below(5);
    for (std::uint64_t i = 0; i < faults; ++i) {
      at(milliseconds(below(450)), [this] { below(3) == 0 ? cut() : crash(); });
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
    const std::int64_t before = result.steps_succeeded;
    start_clients("visitor");
    cluster.clock().advance(milliseconds(100));
    stop_clients(std::chrono::seconds(1));
    if (result.steps_succeeded == before) violation("no step of new sessions succeeded, in peace");
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

  void check_leftovers() {
    // Beyond the time that ended steps are remembered.
    cluster.clock().advance(2 * kRemembered);
    for (const std::string& task : kTasks) {
      if (const std::size_t open = cluster.open_steps(task)) violation(task, " still keeps ", open, " steps");
    }
    if (cluster.observations().steps_running != 0) {
      violation(cluster.observations().steps_running, " steps still run, in peace");
    }
  }
};

template <typename Reply>
ReplyDone<Reply> Client::expect(const char* what, std::function<void(Result<Reply>)> then) {
  waiting_ = true;
  schedule_.trace(name_, " asks ", what);
  return [this, what, then = std::move(then), answered = std::make_shared<bool>(false)](Result<Reply> reply) {
    schedule_.trace(name_, " hears of ", what, ": ", reply.ok() ? "OK" : reply.status().to_string());
    if (*answered) schedule_.violation(name_, ": ", what, " was answered twice");
    *answered = true;
    waiting_ = false;
    then(std::move(reply));
  };
}

CallOptions Client::call_options(bool wait_for_ready) {
  CallOptions options;
  options.wait_for_ready = wait_for_ready;
  if (schedule_.below(2) == 0) options.deadline = schedule_.cluster.clock().now() + milliseconds(schedule_.below(2000));
  return options;
}

void Client::pause() {
  ManualClock& clock = schedule_.cluster.clock();
  clock.call_at(clock.now() + milliseconds(1 + schedule_.below(40)), [this] { go_on(); });
}

void Client::go_on() {
  if (handle_.empty()) return stopping_ ? void() : create();
  // A session is used before it is closed.
  if (stopping_ || (used_ && schedule_.below(20) == 0)) return close();
  step();
}

void Client::create() {
  if (!master_) master_ = schedule_.cluster.connect(name_, master_task_);
  CreateSessionRequest request;
  request.graph_def = schedule_.graph_def();
  master_->create_session(std::move(request), call_options(true),
                          expect<CreateSessionReply>("CreateSession", [this](Result<CreateSessionReply> reply) {
                            if (reply.ok()) {
                              handle_ = reply->session_handle;
                              used_ = false;
                              for (const std::string& task : kTasks) lives_[task] = schedule_.cluster.life(task);
                            }
                            pause();
                          }));
}

void Client::step() {
  used_ = true;
  const std::int64_t token = schedule_.next_token++;
  schedule_.steps[token] = {.client = name_, .lives = lives_};
  RunStepRequest request;
  request.session_handle = handle_;
  request.feeds.emplace_back("token:0", Tensor::scalar(token));
  request.fetches = {"result:0", "twice:0"};
  request.store_errors_in_response_body = schedule_.below(2) == 0;
  request.request_id = token;
  master_->run_step(std::move(request), call_options(false),
                    expect<RunStepReply>("RunStep", [this, token](Result<RunStepReply> reply) {
                      const Status status = reply.ok() ? reply->status : reply.status();
                      if (!status.ok()) {
                        ++schedule_.result.steps_failed;
                        // A session does not repair itself.
                        if (status.code() == Code::kAborted || status.code() == Code::kUnavailable) return close();
                        return pause();
                      }
                      ++schedule_.result.steps_succeeded;
                      schedule_.steps[token].succeeded = true;
                      check_values(token, reply->tensors);
                      pause();
                    }));
}

void Client::check_values(std::int64_t token, const NamedTensors& values) {
  const auto is = [&](std::size_t i, std::int64_t wanted) {
    return i < values.size() && values[i].second.scalar<std::int64_t>() == wanted;
  };
  if (values.size() == 2 && is(0, token) && is(1, 2 * token)) return;
  std::string given;
  for (const auto& [name, value] : values) given += str_cat(" ", name, " = ", value.to_string());
  schedule_.violation("the step with token ", token, " gave", given);
}

void Client::close() {
  master_->close_session({.session_handle = std::exchange(handle_, {})}, call_options(false),
                         expect<EmptyMessage>("CloseSession", [this](const Result<EmptyMessage>&) { pause(); }));
}

}  // namespace

ScheduleResult run_schedule(std::uint64_t seed, const ScheduleOptions& options) {
  return Schedule(seed, options).run();
}

}  // namespace tutti::sim

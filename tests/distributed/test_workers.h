// Workers of several tasks in one process, joined by pointers.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/worker.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/runtime/local_runtime.h"

namespace tutti::testing {

// What a call is answered; waits for it.
template <typename Reply>
class Answer {
 public:
  ReplyDone<Reply> done() {
    return [promise = promise_](Result<Reply> result) { promise->set_value(std::move(result)); };
  }
  bool is_there() const { return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  Reply value() { return answer_.get().value_or_throw(); }
  Status status() { return answer_.get().status(); }

 private:
  std::shared_ptr<std::promise<Result<Reply>>> promise_ = std::make_shared<std::promise<Result<Reply>>>();
  std::future<Result<Reply>> answer_ = promise_->get_future();
};

class TestDirectory : public WorkerDirectory {
 public:
  // `worker` must outlive it.
  void add(const std::string& task, WorkerInterface& worker) {
    workers_[task] = std::shared_ptr<WorkerInterface>(std::shared_ptr<void>(), &worker);
  }
  Result<std::shared_ptr<WorkerInterface>> worker(const std::string& task) override {
    auto it = workers_.find(task);
    if (it == workers_.end()) return not_found("there is no task ", task);
    return it->second;
  }
  std::vector<std::string> tasks() const override {
    std::vector<std::string> names;
    for (const auto& [name, worker] : workers_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, std::shared_ptr<WorkerInterface>> workers_;
};

inline std::string task_name(int i) { return str_cat("/job:worker/replica:0/task:", i); }
inline std::string device_name(int i) { return task_name(i) + "/device:CPU:0"; }
inline std::uint64_t incarnation_of(int i) { return 100 + static_cast<std::uint64_t>(i); }

inline std::string key_of(int from, int to, const std::string& name) {
  return RendezvousKey{.send_device = device_name(from),
                       .send_incarnation = incarnation_of(from),
                       .recv_device = device_name(to),
                       .name = name}
      .to_string();
}

// The part of a graph that one task runs.
class PartGraph {
 public:
  explicit PartGraph(int task) : task_(task), graph_(builtin_ops()), scope_(graph_.device_scope(device_name(task))) {}

  Graph& graph() { return graph_; }
  Output scalar(float value) { return constant(graph_, Tensor::scalar(value)); }
  Output recv(int from, const std::string& name) {
    AttrMap attrs = edge(from, task_, name);
    attrs["tensor_type"] = DType::kFloat;
    return add_op(graph_, "_Recv", {}, attrs)->output();
  }
  Node* send(Output value, int to, const std::string& name) {
    return add_op(graph_, "_Send", {value}, edge(task_, to, name));
  }
  std::string bytes() const { return export_graph_def(graph_); }

 private:
  static AttrMap edge(int from, int to, const std::string& name) {
    return {{"tensor_name", name},
            {"send_device", device_name(from)},
            {"send_device_incarnation", static_cast<std::int64_t>(incarnation_of(from))},
            {"recv_device", device_name(to)}};
  }
  const int task_;
  Graph graph_;
  ScopeGuard scope_;
};

// A session "s" of the master "/job:worker/replica:0/task:0" is open on every worker.
class TestWorkers {
 public:
  explicit TestWorkers(int count, const std::function<void(WorkerOptions&)>& change = {}) {
    for (int i = 0; i < count; ++i) {
      runtimes_.push_back(std::make_unique<LocalRuntime>(
          RuntimeOptions{.intra_op_threads = 1, .inter_op_threads = 2, .job = "worker", .task = i}));
      LocalRuntime& runtime = *runtimes_.back();
      WorkerOptions options;
      options.task = task_name(i);
      options.devices = {{.name = device_name(i), .type = "CPU", .incarnation = incarnation_of(i)}};
      options.make_session = [&runtime](const TaskSessionOptions& o) { return make_task_session(runtime, o); };
      options.reset_containers = [&runtime](const std::vector<std::string>& names) { runtime.reset(names); };
      options.peers = &directory_;
      options.clock = &clock_;
      if (change) change(options);
      workers_.push_back(std::make_unique<Worker>(options));
      directory_.add(task_name(i), *workers_.back());
    }
    for (int i = 0; i < count; ++i) throw_if_error(create_session(i, "s", 1));
  }
  // All must have stopped before one is gone: they call each other.
  ~TestWorkers() {
    for (auto& worker : workers_) worker->stop(cancelled("the test is over"));
  }

  Worker& worker(int i) { return *workers_[i]; }
  ManualClock& clock() { return clock_; }
  TestDirectory& directory() { return directory_; }

  Status create_session(int i, const std::string& handle, std::uint64_t master_incarnation) {
    Answer<EmptyMessage> answer;
    worker(i).create_worker_session(
        {.session_handle = handle, .master_task = task_name(0), .master_incarnation = master_incarnation}, {},
        answer.done());
    return answer.status();
  }
  Result<std::string> try_register(int i, const std::string& graph_def, const std::string& session = "s") {
    Answer<RegisterGraphReply> answer;
    worker(i).register_graph({.session_handle = session, .create_worker_session_called = true, .graph_def = graph_def},
                             {}, answer.done());
    try {
      return answer.value().graph_handle;
    } catch (const Error& error) {
      return error.status();
    }
  }
  // The graph's handle.
  std::string add(int i, const PartGraph& part) { return try_register(i, part.bytes()).value_or_throw(); }

  RunGraphRequest request(const std::string& graph, std::int64_t step, std::vector<std::string> recv_keys = {}) {
    return {.session_handle = "s",
            .create_worker_session_called = true,
            .graph_handle = graph,
            .step_id = step,
            .recv_keys = std::move(recv_keys)};
  }
  Answer<RunGraphReply> run(int i, RunGraphRequest request, const CallOptions& options = {}) {
    Answer<RunGraphReply> answer;
    worker(i).run_graph(std::move(request), options, answer.done());
    return answer;
  }
  Answer<RunGraphReply> run(int i, const std::string& graph, std::int64_t step,
                            std::vector<std::string> recv_keys = {}) {
    return run(i, request(graph, step, std::move(recv_keys)));
  }
  Answer<RecvTensorReply> recv(int i, std::int64_t step, const std::string& key, const CallOptions& options = {},
                               std::int64_t request_id = 0) {
    Answer<RecvTensorReply> answer;
    worker(i).recv_tensor({.step_id = step, .rendezvous_key = key, .request_id = request_id}, options, answer.done());
    return answer;
  }
  void cleanup(int i, std::int64_t step) {
    Answer<EmptyMessage> answer;
    worker(i).cleanup_graph({.step_id = step}, {}, answer.done());
    answer.value();
  }

 private:
  ManualClock clock_;
  TestDirectory directory_;
  std::vector<std::unique_ptr<LocalRuntime>> runtimes_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tutti::testing

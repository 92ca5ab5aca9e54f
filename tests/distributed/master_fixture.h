// A master over fake workers: its own task, worker 0, and two parameter servers.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/distributed/fake_worker.h"
#include "tests/distributed/test_workers.h"
#include "tutti/distributed/master.h"

namespace tutti::testing {

inline const std::string kWorker = "/job:worker/replica:0/task:0";
inline const std::string kPs0 = "/job:ps/replica:0/task:0";
inline const std::string kPs1 = "/job:ps/replica:0/task:1";

class MasterFixture : public ::testing::Test {
 protected:
  MasterFixture() {
    for (const std::string& task : {kWorker, kPs0, kPs1}) {
      workers_[task] = std::make_unique<FakeWorker>(task, 100 + workers_.size());
      directory_.add(task, *workers_[task]);
    }
    options_.task = kWorker;
    options_.workers = &directory_;
    options_.clock = &clock_;
    options_.seed = 7;
    options_.log = [this](const std::string& line) {
      MutexLock lock(mu_);
      lines_.push_back(line);
    };
  }

  Master& master() {
    if (!master_) master_.emplace(options_);
    return *master_;
  }
  FakeWorker& worker() { return *workers_.at(kWorker); }
  FakeWorker& ps(int i) { return *workers_.at(i == 0 ? kPs0 : kPs1); }
  std::vector<std::string> lines() {
    MutexLock lock(mu_);
    return lines_;
  }

  // x fed; a on ps 0, b on ps 1, sum = a + b and mine = x * 2 on the worker. "alone" needs ps 1 only, and the worker
  // when it is fetched.
  static std::string graph_def() {
    Graph graph(builtin_ops());
    Output a, b;
    {
      ScopeGuard scope = graph.device_scope("/job:ps/task:0");
      a = constant(graph, Tensor::scalar(1.0f), "a");
    }
    {
      ScopeGuard scope = graph.device_scope("/job:ps/task:1");
      b = constant(graph, Tensor::scalar(2.0f), "b");
      add_op(graph, "NoOp", {}, {}, "alone");
    }
    ScopeGuard scope = graph.device_scope("/job:worker");
    Output x = placeholder(graph, DType::kFloat, {}, "x");
    add_op(graph, "AddV2", {a, b}, {}, "sum");
    add_op(graph, "Mul", {x, constant(graph, Tensor::scalar(2.0f), "two")}, {}, "mine");
    add_op(graph, "Neg", {x}, {}, "negative");
    return export_graph_def(graph);
  }

  Answer<CreateSessionReply> create_async(SessionConfig config = {}, const CallOptions& options = {},
                                          std::string graph = graph_def()) {
    Answer<CreateSessionReply> answer;
    master().create_session({std::move(graph), std::move(config), "grpc://localhost:1"}, options, answer.done());
    return answer;
  }
  void create(SessionConfig config = {}) { session_ = create_async(std::move(config)).value().session_handle; }

  RunStepRequest request(std::vector<std::string> fetches, std::vector<std::string> targets = {}) {
    RunStepRequest request;
    request.session_handle = session_;
    request.fetches = std::move(fetches);
    request.targets = std::move(targets);
    return request;
  }
  Answer<RunStepReply> run(RunStepRequest request, const CallOptions& options = {}) {
    Answer<RunStepReply> answer;
    master().run_step(std::move(request), options, answer.done());
    return answer;
  }
  Answer<RunStepReply> fetch(const std::string& name, const CallOptions& options = {}) {
    return run(request({name}), options);
  }
  Answer<EmptyMessage> close() {
    Answer<EmptyMessage> answer;
    master().close_session({session_}, {}, answer.done());
    return answer;
  }
  Result<std::int64_t> extend(std::string graph, std::int64_t version) {
    Answer<ExtendSessionReply> answer;
    master().extend_session({session_, std::move(graph), version}, {}, answer.done());
    try {
      return answer.value().new_graph_version;
    } catch (const Error& error) {
      return error.status();
    }
  }
  void hold_runs() {
    for (auto& [task, worker] : workers_) worker->runs.hold();
  }

  ManualClock clock_;
  MasterOptions options_;
  TestDirectory directory_;
  std::map<std::string, std::unique_ptr<FakeWorker>> workers_;
  std::string session_;
  Mutex mu_;
  std::vector<std::string> lines_ TUTTI_GUARDED_BY(mu_);
  std::optional<Master> master_;  // goes before what it uses
};

#define EXPECT_STATUS(expression, expected_code, part)                                 \
  do {                                                                                 \
    const Status status_ = (expression);                                               \
    EXPECT_EQ(status_.code(), expected_code) << status_.to_string();                   \
    EXPECT_NE(status_.message().find(part), std::string::npos) << status_.to_string(); \
  } while (false)

}  // namespace tutti::testing

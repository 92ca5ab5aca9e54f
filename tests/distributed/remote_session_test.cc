#include "tutti/distributed/remote_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "tests/distributed/test_workers.h"
#include "tutti/distributed/master.h"
#include "tutti/graph/function.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
#include "tutti/runtime/local_session.h"

namespace tutti::remote_session_test {

using testing::device_name;
using testing::task_name;
using testing::TestWorkers;

// Passes calls on to a master; some are lost on the way there or back.
class LossyMaster : public MasterInterface {
 public:
  explicit LossyMaster(MasterInterface& master) : master_(master) {}

  // The next calls are answered kUnavailable: these many without, then these many after having been made.
  void lose(int requests, int replies) {
    lost_requests = requests;
    lost_replies = replies;
  }
  std::atomic<int> lost_requests = 0;
  std::atomic<int> lost_replies = 0;
  std::vector<std::string> graphs;  // what was sent to grow the session's
  std::atomic<int> run_steps = 0;
  std::atomic<int> run_callables = 0;

  void create_session(CreateSessionRequest request, const CallOptions& options,
                      ReplyDone<CreateSessionReply> done) override {
    EXPECT_TRUE(options.wait_for_ready);
    master_.create_session(std::move(request), options, std::move(done));
  }
  void extend_session(ExtendSessionRequest request, const CallOptions& options,
                      ReplyDone<ExtendSessionReply> done) override {
    graphs.push_back(request.graph_def);
    master_.extend_session(std::move(request), options, std::move(done));
  }
  void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                         ReplyDone<PartialRunSetupReply> done) override {
    master_.partial_run_setup(std::move(request), options, std::move(done));
  }
  void run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) override {
    ++run_steps;
    if (lost_replies > 0) {
      --lost_replies;
      done = [done = std::move(done)](const Result<RunStepReply>&) { done(unavailable("the reply was lost")); };
    }
    master_.run_step(std::move(request), options, std::move(done));
  }
  void close_session(CloseSessionRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    master_.close_session(std::move(request), options, std::move(done));
  }
  void list_devices(ListDevicesRequest request, const CallOptions& options, ReplyDone<ListDevicesReply> done) override {
    master_.list_devices(std::move(request), options, std::move(done));
  }
  void reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) override {
    master_.reset(std::move(request), options, std::move(done));
  }
  void make_callable(MakeCallableRequest request, const CallOptions& options,
                     ReplyDone<MakeCallableReply> done) override {
    master_.make_callable(std::move(request), options, std::move(done));
  }
  void run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done) override {
    ++run_callables;
    EXPECT_FALSE(options.wait_for_ready);
    if (lost_requests > 0) {
      --lost_requests;
      return done(unavailable("the request was lost"));
    }
    if (lost_replies > 0) {
      --lost_replies;
      done = [done = std::move(done)](const Result<RunCallableReply>&) { done(unavailable("the reply was lost")); };
    }
    master_.run_callable(std::move(request), options, std::move(done));
  }
  void release_callable(ReleaseCallableRequest request, const CallOptions& options,
                        ReplyDone<EmptyMessage> done) override {
    master_.release_callable(std::move(request), options, std::move(done));
  }

 private:
  MasterInterface& master_;
};

// A client, a master on task 0 and workers on two tasks, in one process.
class RemoteSessionTest : public ::testing::Test {
 protected:
  RemoteSessionTest() {
    MasterOptions options;
    options.task = task_name(0);
    options.workers = &workers_.directory();
    options.clock = &workers_.clock();
    master_ = std::make_unique<Master>(options);
    lossy_ = std::make_shared<LossyMaster>(*master_);
  }
  std::unique_ptr<Session> connect(Graph& graph) {
    return make_remote_session(lossy_, graph, {.clock = &workers_.clock()}).value_or_throw();
  }
  static testing::Answer<std::vector<Tensor>> start(Session& session, const Feeds& feeds,
                                                    const std::vector<TensorName>& fetches,
                                                    const RunOptions& options = {}) {
    testing::Answer<std::vector<Tensor>> answer;
    session.run_async(feeds, fetches, {}, options, [done = answer.done()](Status status, std::vector<Tensor> values) {
      if (status.ok()) {
        done(std::move(values));
      } else {
        done(std::move(status));
      }
    });
    return answer;
  }
  // Takes from an empty queue on task 1: waits for ever.
  static Output waiting(Graph& graph) {
    ScopeGuard scope = graph.device_scope("/job:worker/task:1");
    Node* queue = add_op(graph, "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "queue");
    return add_op(graph, "QueueDequeueV2", {queue->output()}, {{"component_types", std::vector<DType>{DType::kFloat}}},
                  "take")
        ->output();
  }

  TestWorkers workers_{2};
  std::unique_ptr<Master> master_;
  std::shared_ptr<LossyMaster> lossy_;
  Graph graph_{builtin_ops()};
};

std::vector<float> values(const Tensor& tensor) {
  const auto flat = tensor.flat<float>();
  return {flat.begin(), flat.end()};
}

// Two layers; variables on task 1, computing on task 0. With no devices it is the same program on one machine.
struct Mlp {
  Output x, y, loss;
  Node* train;
  Node* init;
  std::vector<Var> variables;

  Mlp(Graph& graph, bool two_tasks) {
    const std::string ps = two_tasks ? "/job:worker/task:1" : "";
    auto weights = [&](std::int64_t rows, std::int64_t columns, const std::string& name) {
      ScopeGuard scope = graph.device_scope(ps);
      Tensor initial(DType::kFloat, Shape{rows, columns});
      auto flat = initial.flat<float>();
      for (std::size_t i = 0; i < flat.size(); ++i)
        flat[i] = static_cast<float>((i * 7 + name.size()) % 13) / 13 - 0.5f;
      variables.push_back(variable(graph, initial, name));
      return variables.back();
    };
    Var w1 = weights(4, 8, "w1");
    Var w2 = weights(8, 3, "kernel2");
    ScopeGuard scope = graph.device_scope(two_tasks ? "/job:worker/task:0" : "");
    x = placeholder(graph, DType::kFloat, {-1, 4}, "x");
    y = placeholder(graph, DType::kInt32, {-1}, "y");
    loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(y, matmul(nn::relu(matmul(x, w1)), w2)));
    train = Adam(0.05).minimize(loss);
    init = global_variables_initializer(graph);
  }

  // The losses, then the variables.
  std::vector<float> run(Session& session) const {
    session.run({init});
    std::vector<float> seen;
    for (int step = 0; step < 20; ++step) {
      Tensor images(DType::kFloat, Shape{6, 4});
      Tensor labels(DType::kInt32, Shape{6});
      auto flat = images.flat<float>();
      for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>((i * 5 + step) % 11) / 11;
      for (std::size_t i = 0; i < 6; ++i) labels.flat<std::int32_t>()[i] = static_cast<std::int32_t>((i + step) % 3);
      seen.push_back(session.run({{x, images}, {y, labels}}, {loss}, {train})[0].scalar<float>());
    }
    for (const Var& var : variables) {
      for (float value : values(session.run({}, {var})[0])) seen.push_back(value);
    }
    return seen;
  }
};

TEST_F(RemoteSessionTest, TrainsAsOnOneMachine) {
  Graph local_graph(builtin_ops());
  Mlp local(local_graph, false);
  LocalSession local_session(local_graph);
  const std::vector<float> expected = local.run(local_session);

  Mlp remote(graph_, true);
  std::unique_ptr<Session> session = connect(graph_);
  const std::vector<float> seen = remote.run(*session);
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 1e-5) << i;
  EXPECT_LT(seen[19], seen[0]);
  EXPECT_EQ(lossy_->run_steps, 0) << "warm steps send no names";
  EXPECT_TRUE(session->close().ok());
}

TEST_F(RemoteSessionTest, TheGraphIsSentOnceAndThenWhatIsNew) {
  Output one = constant(graph_, Tensor::scalar(1.0f), "one");
  std::unique_ptr<Session> session = connect(graph_);
  EXPECT_TRUE(lossy_->graphs.empty());
  EXPECT_EQ(session->run({}, {one})[0].scalar<float>(), 1.0f);
  session->run({}, {one});
  ASSERT_EQ(lossy_->graphs.size(), 1u);
  Output two = one + one;
  EXPECT_EQ(session->run({}, {two})[0].scalar<float>(), 2.0f);
  ASSERT_EQ(lossy_->graphs.size(), 2u);
  EXPECT_EQ(lossy_->graphs[1], export_graph_def(graph_, 1));

  Graph more(builtin_ops());
  constant(more, Tensor::scalar(9.0f), "nine");
  EXPECT_TRUE(session->extend(export_graph_def(more)).ok());
  EXPECT_EQ(session->run({}, {"nine:0"})[0].scalar<float>(), 9.0f);
  EXPECT_EQ(session->list_devices(), (std::vector<std::string>{device_name(0), device_name(1)}));
}

TEST_F(RemoteSessionTest, ANodeThatChangedAfterItWasSentIsAnError) {
  Output one = constant(graph_, Tensor::scalar(1.0f), "one");
  Node* node = add_op(graph_, "Neg", {one}, {}, "node");
  std::unique_ptr<Session> session = connect(graph_);
  session->run({}, {node->output()});
  ASSERT_TRUE(graph_.rebuild(*node, {.op = "Abs", .inputs = {one}}).ok());
  Output later = constant(graph_, Tensor::scalar(2.0f), "later");
  const Status status = session->try_run({}, {later}).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("\"node\" was changed after it had been sent"), std::string::npos)
      << status.to_string();
}

TEST_F(RemoteSessionTest, WhatIsFedMayBeFetched) {
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  Output y = x * 3.0;
  std::unique_ptr<Session> session = connect(graph_);
  std::vector<Tensor> out = session->run({{x, Tensor::scalar(2.0f)}}, {y, x, y});
  EXPECT_EQ(out[0].scalar<float>(), 6.0f);
  EXPECT_EQ(out[1].scalar<float>(), 2.0f);
  EXPECT_EQ(out[2].scalar<float>(), 6.0f);
  EXPECT_EQ(session->run({{x, Tensor::scalar(4.0f)}}, {"x"})[0].scalar<float>(), 4.0f);
}

TEST_F(RemoteSessionTest, ErrorsNameTheTaskAndTheNode) {
  std::unique_ptr<Session> session = connect(graph_);
  EXPECT_EQ(session->try_run({}, {"absent:0"}).status().code(), Code::kNotFound);
  ScopeGuard scope = graph_.device_scope("/job:worker/task:1");
  Output bad = op1("CheckNumerics", {constant(graph_, Tensor::scalar(NAN))}, {{"message", "look here"}}, "check");
  const Status status = session->try_run({}, {bad}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("From " + task_name(1) + ":\n"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("look here"), std::string::npos);
  EXPECT_NE(status.message().find("[[{{node check}}]]"), std::string::npos);
  EXPECT_EQ(status.message().find("_Derived_"), std::string::npos);
}

TEST_F(RemoteSessionTest, TimeoutsAndCancellationsEndAStep) {
  Output taken = waiting(graph_);
  std::unique_ptr<Session> session = connect(graph_);
  auto late = start(*session, {}, {taken}, {.timeout = std::chrono::milliseconds(200)});
  EXPECT_FALSE(late.is_there());
  workers_.clock().advance(std::chrono::milliseconds(200));
  const Status status = late.status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find(task_name(1)), std::string::npos) << status.to_string();

  Cancellation cancellation;
  auto stopped = start(*session, {}, {taken}, {.cancellation = &cancellation});
  EXPECT_FALSE(stopped.is_there());
  cancellation.cancel(cancelled("enough"));
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);

  auto closed = start(*session, {}, {taken});
  EXPECT_TRUE(session->close().ok());
  const Status ended = closed.status();
  EXPECT_EQ(ended.code(), Code::kCancelled);
  EXPECT_NE(ended.message().find("Session::Close"), std::string::npos) << ended.to_string();
  EXPECT_EQ(session->try_run({}, {taken}).status().code(), Code::kCancelled);
  EXPECT_TRUE(session->close().ok());
}

TEST_F(RemoteSessionTest, TracesOfAllTasksComeBack) {
  Output a;
  {
    ScopeGuard scope = graph_.device_scope("/job:worker/task:1");
    a = op1("Neg", {placeholder(graph_, DType::kFloat, {}, "x")}, {}, "there");
  }
  Output b = op1("Neg", {a}, {}, "here");
  std::unique_ptr<Session> session = connect(graph_);
  RunMetadata metadata;
  EXPECT_EQ(session->run({{"x", Tensor::scalar(5.0f)}}, {b}, {}, {.metadata = &metadata})[0].scalar<float>(), 5.0f);
  std::set<std::string> devices;
  for (const NodeStats& node : metadata.step_stats.nodes) devices.insert(node.device);
  EXPECT_TRUE(devices.contains(device_name(0)));
  EXPECT_TRUE(devices.contains(device_name(1)));
}

TEST_F(RemoteSessionTest, PartialRunsGoThroughAllTasks) {
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  Output y = placeholder(graph_, DType::kFloat, {}, "y");
  Output far;
  {
    ScopeGuard scope = graph_.device_scope("/job:worker/task:1");
    far = op1("Neg", {x}, {}, "far");
  }
  op1("AddV2", {far, y}, {}, "both");
  std::unique_ptr<Session> session = connect(graph_);
  const std::string handle = session->partial_run_setup({{"x", "y"}, {"far", "both"}, {}}).value_or_throw();
  EXPECT_EQ(session->partial_run(handle, {{x, Tensor::scalar(2.0f)}}, {"far"}).value_or_throw()[0].scalar<float>(), -2);
  EXPECT_EQ(session->partial_run(handle, {{y, Tensor::scalar(5.0f)}}, {"both"}).value_or_throw()[0].scalar<float>(), 3);
  EXPECT_EQ(session->partial_run(handle, {}, {"both"}).status().code(), Code::kInvalidArgument);
}

TEST_F(RemoteSessionTest, PartialRunsHaveATimeLimitAndACancellation) {
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  op1("Neg", {x}, {}, "negated");
  Output taken = waiting(graph_);
  std::unique_ptr<Session> session = connect(graph_);
  const Signature signature{{"x"}, {"negated", taken.name()}, {}};
  auto first_call = [&](const std::string& handle) {
    return session->partial_run(handle, {{x, Tensor::scalar(2.0f)}}, {"negated"}).value_or_throw()[0].scalar<float>();
  };

  const std::string limited =
      session->partial_run_setup(signature, {.timeout = std::chrono::milliseconds(50)}).value_or_throw();
  EXPECT_EQ(first_call(limited), -2.0f);
  std::atomic<bool> ended = false;
  Status late;
  std::thread caller([&] {
    late = session->partial_run(limited, {}, {taken}).status();
    ended = true;
  });
  while (!ended) {
    workers_.clock().advance(std::chrono::milliseconds(1));
    std::this_thread::yield();
  }
  caller.join();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.to_string();

  Cancellation cancellation;
  const std::string handle = session->partial_run_setup(signature, {.cancellation = &cancellation}).value_or_throw();
  EXPECT_EQ(first_call(handle), -2.0f);
  std::thread stopper([&] { cancellation.cancel(cancelled("enough")); });
  const Status stuck = session->partial_run(handle, {}, {taken}).status();
  stopper.join();
  EXPECT_EQ(stuck.code(), Code::kCancelled) << stuck.to_string();
}

TEST_F(RemoteSessionTest, LostRequestsAreRepeatedAndLostRepliesAreNot) {
  Var count = variable(graph_, Tensor::scalar(0.0f), "count");
  Node* more = count.assign_add(constant(graph_, Tensor::scalar(1.0f)));
  std::unique_ptr<Session> session = connect(graph_);
  session->run({count.initializer()});
  const Session::CallableId add = session->make_callable({{}, {}, {more->name()}}).value_or_throw();
  auto go = [&] {
    testing::Answer<std::vector<Tensor>> answer;
    session->run_callable_async(add, {}, {}, [done = answer.done()](Status status, std::vector<Tensor>) {
      if (status.ok()) {
        done(std::vector<Tensor>());
      } else {
        done(std::move(status));
      }
    });
    return answer;
  };
  auto current = [&] { return session->run({}, {count})[0].scalar<float>(); };

  lossy_->lose(3, 0);
  auto repeated = go();
  EXPECT_FALSE(repeated.is_there());
  workers_.clock().advance(std::chrono::milliseconds(7));
  repeated.value();
  EXPECT_EQ(current(), 1.0f);

  lossy_->lose(0, 1);
  auto lost = go();
  workers_.clock().advance(std::chrono::milliseconds(1));
  const Status status = lost.status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "the reply was lost");
  EXPECT_EQ(current(), 2.0f) << "it had its effect once";

  lossy_->lose(0, 1);
  auto in_body = start(*session, {}, {count}, {.timeout = std::chrono::seconds(5)});
  workers_.clock().advance(std::chrono::milliseconds(1));
  EXPECT_EQ(in_body.status().message(), "the reply was lost") << "also where errors come in the body";

  lossy_->run_callables = 0;
  lossy_->lose(1000, 0);
  auto given_up = go();
  workers_.clock().advance(std::chrono::milliseconds(1023));
  EXPECT_EQ(given_up.status().code(), Code::kUnavailable);
  EXPECT_EQ(lossy_->run_callables, 11);
  lossy_->lose(1000, 0);
  auto closed = go();
  EXPECT_TRUE(session->close().ok());
  EXPECT_EQ(closed.status().code(), Code::kCancelled);
}

// A function whose body names another task, called with a variable that is there and one that is here.
TEST_F(RemoteSessionTest, FunctionsMaySpanTasks) {
  Output there, here;
  Node* init = nullptr;
  {
    ScopeGuard scope = graph_.device_scope("/job:worker/task:1");
    there = variable(graph_, Tensor::scalar(3.0f), "there").handle();
  }
  {
    ScopeGuard scope = graph_.device_scope("/job:worker/task:0");
    here = variable(graph_, Tensor::scalar(4.0f), "here").handle();
  }
  init = global_variables_initializer(graph_);
  FunctionBody body = make_function_body(graph_, {DType::kResource, DType::kResource, DType::kFloat});
  Output far;
  {
    ScopeGuard scope = body.graph->device_scope("/job:worker/task:1");
    far = op1("Neg", {body.args[2]->output()}, {}, "far");
  }
  auto read = [&](int arg) {
    return add_op(*body.graph, "ReadVariableOp", {body.args[arg]->output()}, {{"dtype", DType::kFloat}})->output();
  };
  set_results(body, {op1("AddN", {read(0) * 100.0, read(1) * 10.0, far}, {}, "total")});
  ASSERT_TRUE(graph_.library().add("spanning", body).ok());
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  Node* call = add_op(graph_, "StatefulPartitionedCall", {there, here, x},
                      {{"Tin", std::vector<DType>{DType::kResource, DType::kResource, DType::kFloat}},
                       {"Tout", std::vector<DType>{DType::kFloat}},
                       {"f", FunctionRef{.name = "spanning"}}},
                      "call");
  std::unique_ptr<Session> session = connect(graph_);
  session->run({init});
  RunMetadata metadata;
  std::vector<Tensor> out = session->run({{x, Tensor::scalar(5.0f)}}, {call->output()}, {}, {.metadata = &metadata});
  EXPECT_EQ(out[0].scalar<float>(), 335.0f);
  bool ran_there = false;
  for (const NodeStats& node : metadata.step_stats.nodes) ran_there |= node.device == device_name(1);
  EXPECT_TRUE(ran_there);
}

TEST_F(RemoteSessionTest, ThreadsShareASession) {
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  Output far;
  {
    ScopeGuard scope = graph_.device_scope("/job:worker/task:1");
    far = x * 2.0;
  }
  Output out = far + 1.0;
  std::unique_ptr<Session> session = connect(graph_);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float fed = static_cast<float>(t * 100 + i);
        if (session->run({{x, Tensor::scalar(fed)}}, {out})[0].scalar<float>() != fed * 2 + 1) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace tutti::remote_session_test

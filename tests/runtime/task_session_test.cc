#include "tutti/runtime/task_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/function.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::task_session_test {

constexpr const char* kDevice = "/job:ps/replica:0/task:3/device:CPU:0";

AttrMap edge(const std::string& name) {
  return {{"tensor_name", name}, {"send_device", kDevice}, {"send_device_incarnation", 1}, {"recv_device", kDevice}};
}

std::string key(const std::string& name) {
  return RendezvousKey{.send_device = kDevice, .send_incarnation = 1, .recv_device = kDevice, .name = name}.to_string();
}

// "v", in a slot of that name.
Output variable_handle(Graph& graph) {
  return add_op(graph, "VarHandleOp", {},
                {{"dtype", DType::kFloat}, {"shape", PartialShape(Shape{})}, {"shared_name", "v"}}, "v")
      ->output();
}

class TaskSessionTest : public ::testing::Test {
 protected:
  Node* send(Output value, const std::string& name) {
    return add_op(value.graph(), "_Send", {value}, edge(name), "send");
  }
  Output scalar(Graph& graph, float value) { return constant(graph, Tensor::scalar(value)); }
  std::shared_ptr<const TaskGraph> add(TaskSession& session, const Graph& graph) {
    return session.add_graph(export_graph_def(graph), {}).value_or_throw();
  }
  Status run(TaskSession& session, const std::shared_ptr<const TaskGraph>& graph) {
    Cancellation cancellation;
    std::promise<Status> ended;
    session.run(graph, {.id = 1, .rendezvous = &rendezvous_, .cancellation = &cancellation, .stats = &stats_},
                [&ended](Status status) { ended.set_value(std::move(status)); });
    return ended.get_future().get();
  }
  float received(const std::string& name) {
    Cancellation at_once;
    float value = NAN;
    rendezvous_.recv(key(name), at_once, [&value](const Status& status, const Tensor& tensor, bool) {
      if (status.ok()) value = tensor.scalar<float>();
    });
    at_once.cancel(cancelled("it was never sent"));
    return value;
  }
  // Graphs that write and read the variable.
  std::string writes(float value) {
    Graph graph(builtin_ops());
    add_op(graph, "AssignVariableOp", {variable_handle(graph), scalar(graph, value)}, {{"dtype", DType::kFloat}});
    return export_graph_def(graph);
  }
  std::string reads() {
    Graph graph(builtin_ops());
    send(op1("ReadVariableOp", {variable_handle(graph)}, {{"dtype", DType::kFloat}}), "v:0");
    return export_graph_def(graph);
  }
  Status run(TaskSession& session, const std::string& graph_def) {
    return run(session, session.add_graph(graph_def, {}).value_or_throw());
  }

  LocalRuntime runtime_{{.intra_op_threads = 1, .inter_op_threads = 2, .job = "ps", .task = 3}};
  LocalRendezvous rendezvous_;
  StepStats stats_;
};

TEST_F(TaskSessionTest, RunsEverythingThatAGraphHas) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  send(scalar(graph, 2) + scalar(graph, 3), "five:0");
  add_op(graph, "AssignVariableOp", {variable_handle(graph), scalar(graph, 4)}, {{"dtype", DType::kFloat}});
  EXPECT_TRUE(run(*session, add(*session, graph)).ok());
  EXPECT_EQ(received("five:0"), 5.0f);
  EXPECT_EQ(stats_.step_id, 1);
  EXPECT_FALSE(stats_.nodes.empty());
  EXPECT_TRUE(run(*session, reads()).ok());
  EXPECT_EQ(received("v:0"), 4.0f);
}

TEST_F(TaskSessionTest, SessionsShareTheTasksStateUnlessTheyAreIsolated) {
  auto one = make_task_session(runtime_);
  auto two = make_task_session(runtime_);
  auto isolated = make_task_session(runtime_, {.isolated = true});
  EXPECT_TRUE(run(*one, writes(1)).ok());
  EXPECT_TRUE(run(*two, reads()).ok());
  EXPECT_EQ(received("v:0"), 1.0f);
  EXPECT_EQ(run(*isolated, reads()).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(run(*isolated, writes(2)).ok());
  EXPECT_TRUE(run(*isolated, reads()).ok());
  EXPECT_EQ(received("v:0"), 2.0f);
  EXPECT_TRUE(run(*one, reads()).ok());
  EXPECT_EQ(received("v:0"), 1.0f);
}

// Sends end when the test says so, and tell which threads run them.
class SlowRendezvous : public Rendezvous {
 public:
  Status send(const std::string&, Tensor, bool) override {
    MutexLock lock(mu_);
    threads_.push_back(std::this_thread::get_id());
    changed_.notify_all();
    while (!open_) changed_.wait(mu_);
    return {};
  }
  void recv(const std::string&, Cancellation&, Done done) override { done(unimplemented("recv"), {}, false); }
  void abort(Status) override {}
  void open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  // Of the first so many sends.
  std::vector<std::thread::id> threads(std::size_t count) {
    MutexLock lock(mu_);
    while (threads_.size() < count) changed_.wait(mu_);
    return threads_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ TUTTI_GUARDED_BY(mu_) = false;
  std::vector<std::thread::id> threads_ TUTTI_GUARDED_BY(mu_);
};

// Callers are the transports' threads, which are needed for other messages.
TEST_F(TaskSessionTest, OneCallerAtATimeRunsAStepItself) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  send(scalar(graph, 1), "x");
  const auto part = add(*session, graph);
  SlowRendezvous slow;
  Cancellation cancellation;
  std::promise<Status> ended[2];
  const auto start = [&](int i) {
    session->run(part, {.id = i + 1, .rendezvous = &slow, .cancellation = &cancellation},
                 [&ended, i](Status status) { ended[i].set_value(std::move(status)); });
  };
  std::thread first(start, 0);
  const std::thread::id first_id = first.get_id();
  EXPECT_EQ(slow.threads(1)[0], first_id);
  start(1);  // returns while the step waits
  const std::thread::id second_id = slow.threads(2)[1];
  EXPECT_NE(second_id, first_id);
  EXPECT_NE(second_id, std::this_thread::get_id());
  slow.open();
  first.join();
  for (auto& end : ended) EXPECT_TRUE(end.get_future().get().ok());
}

TEST_F(TaskSessionTest, GraphsNameTheirCutEdgesAnew) {
  auto session = make_task_session(runtime_);
  for (const std::string name : {"first", "second"}) {
    Graph graph(builtin_ops());
    send(scalar(graph, 1), name);
    ASSERT_TRUE(run(*session, add(*session, graph)).ok());
    EXPECT_EQ(received(name), 1.0f) << "a node \"send\" was there before";
  }
}

TEST_F(TaskSessionTest, DevicesAreOfThisTaskOrNone) {
  auto session = make_task_session(runtime_);
  for (const char* device : {"", "/device:CPU:0", "/job:ps/task:3", kDevice}) {
    Graph graph(builtin_ops());
    auto scope = graph.device_scope(device);
    send(scalar(graph, 1), "x");
    EXPECT_TRUE(run(*session, add(*session, graph)).ok()) << device;
  }
  Graph graph(builtin_ops());
  auto scope = graph.device_scope("/job:ps/task:4");
  send(scalar(graph, 1), "x");
  const Status status = session->add_graph(export_graph_def(graph), {}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  for (const char* part : {"/job:ps/replica:0/task:3", "/task:4", "Const"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.to_string();
  }
  EXPECT_EQ(session->add_graph("not a graph", {}).status().code(), Code::kInvalidArgument);
}

TEST_F(TaskSessionTest, GraphsShareFunctions) {
  auto session = make_task_session(runtime_);
  for (float value : {2.0f, 3.0f}) {
    Graph graph(builtin_ops());
    FunctionBody body = make_function_body(graph, {DType::kFloat});
    set_results(body, {square(body.args[0]->output())});
    ASSERT_TRUE(graph.library().add("f", body).ok());
    send(add_op(graph, "f", {scalar(graph, value)})->output(), "f:0");
    ASSERT_TRUE(run(*session, add(*session, graph)).ok());
    EXPECT_EQ(received("f:0"), value * value);
  }
  Graph graph(builtin_ops());
  FunctionBody body = make_function_body(graph, {DType::kFloat});
  set_results(body, {neg(body.args[0]->output())});
  ASSERT_TRUE(graph.library().add("f", body).ok());
  EXPECT_EQ(session->add_graph(export_graph_def(graph), {}).status().code(), Code::kAlreadyExists);
}

TEST_F(TaskSessionTest, ErrorsNameTheNodeForPeopleAndForClients) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  send(op1("CheckNumerics", {scalar(graph, INFINITY)}, {{"message", "so"}}, "layer/check"), "x");
  const Status status = run(*session, add(*session, graph));
  EXPECT_EQ(status, invalid_argument("CheckNumerics \"layer/check\": so : Tensor had Inf values",
                                     "\n\t [[{{node layer/check}}]]"));
}

TEST_F(TaskSessionTest, AnErrorOfAnotherTaskKeepsItsNode) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  AttrMap attrs = edge("x");
  attrs["tensor_type"] = DType::kFloat;
  add_op(graph, "_Recv", {}, attrs, "recv");
  rendezvous_.abort(aborted("Foo \"there\": bad\n\t [[{{node there}}]]"));
  EXPECT_EQ(run(*session, add(*session, graph)), aborted("_Recv \"recv\": Foo \"there\": bad\n\t [[{{node there}}]]"));
}

TEST_F(TaskSessionTest, ACancelledStepTellsTheCause) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  AttrMap attrs = edge("x");
  attrs["tensor_type"] = DType::kFloat;
  add_op(graph, "_Recv", {}, attrs, "recv");
  Cancellation cancellation;
  std::promise<Status> ended;
  session->run(add(*session, graph), {.id = 1, .rendezvous = &rendezvous_, .cancellation = &cancellation},
               [&ended](Status status) { ended.set_value(std::move(status)); });
  session.reset();  // the step goes on
  cancellation.cancel(cancelled("not needed"));
  const Status status = ended.get_future().get();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_NE(status.message().find("not needed"), std::string::npos) << status.to_string();
}

TEST_F(TaskSessionTest, AResetEndsWhatWaitsInAQueue) {
  auto session = make_task_session(runtime_);
  const AttrMap types{{"component_types", std::vector<DType>{DType::kFloat}}};
  Graph graph(builtin_ops());
  send(op1("QueueDequeueV2", {add_op(graph, "FIFOQueueV2", {}, types)->output()}, types), "x:0");
  Cancellation cancellation;
  std::promise<Status> ended;
  session->run(add(*session, graph), {.id = 1, .rendezvous = &rendezvous_, .cancellation = &cancellation},
               [&ended](Status status) { ended.set_value(std::move(status)); });
  runtime_.reset();
  EXPECT_EQ(ended.get_future().get().code(), Code::kAborted);
}

TEST_F(TaskSessionTest, WhatGoesToAnotherTaskIsPutWhereItsTransportWantsIt) {
  const std::unique_ptr<Allocator> shared = make_pool_allocator();
  auto session = make_task_session(runtime_, {.sent_values = shared.get()});
  const PassOptions none{.fold_constants = false, .fuse = false};
  // x * 2 goes to another task and -(x * 3) stays, in either executor.
  for (bool branches : {false, true}) {
    Graph graph(builtin_ops());
    Output x = scalar(graph, 5);
    if (branches) x = add_op(graph, "Switch", {x, constant(graph, Tensor::scalar(true))})->output(1);
    AttrMap elsewhere = edge("there");
    elsewhere["recv_device"] = "/job:worker/replica:0/task:0/device:CPU:0";
    add_op(graph, "_Send", {x * scalar(graph, 2)}, elsewhere);
    send(neg(x * scalar(graph, 3)), "here");
    const std::int64_t before = shared->stats().allocations;
    ASSERT_TRUE(run(*session, session->add_graph(export_graph_def(graph), {.passes = none}).value_or_throw()).ok());
    EXPECT_EQ(shared->stats().allocations, before + 1);
    EXPECT_EQ(received("here"), -15.0f);
  }
}

TEST_F(TaskSessionTest, SoftPlacementReachesIntoFunctions) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  const auto on_missing_device = [](Graph& body, const std::vector<Output>& args) {
    ScopeGuard device = body.device_scope("/device:GPU:3");
    return std::vector<Output>{neg(args[0])};
  };
  Output flag = constant(graph, Tensor::scalar(true));
  send(cond(flag, {scalar(graph, 2)}, on_missing_device, on_missing_device)[0], "soft");
  const std::string bytes = export_graph_def(graph);
  const Status refused = run(*session, bytes);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("no device matches /device:GPU:3"), std::string::npos) << refused.message();
  const auto part = session->add_graph(bytes, {.passes = {}, .allow_soft_placement = true}).value_or_throw();
  ASSERT_TRUE(run(*session, part).ok());
  EXPECT_EQ(received("soft"), -2.0f);
}

TEST_F(TaskSessionTest, GivesTheGraphThatItRuns) {
  auto session = make_task_session(runtime_);
  Graph graph(builtin_ops());
  send(scalar(graph, 2) + scalar(graph, 3), "five:0");
  const std::string bytes = export_graph_def(graph);
  Graph as_it_came(builtin_ops());
  Graph folded(builtin_ops());
  const PassOptions none{.fold_constants = false,
                         .merge_common_subexpressions = false,
                         .drop_unread = false,
                         .hoist = false,
                         .open_gates = false,
                         .fuse = false,
                         .inline_functions = false};
  throw_if_error(
      import_graph_def(session->add_graph(bytes, {.passes = none}).value_or_throw()->graph_def(), as_it_came));
  throw_if_error(import_graph_def(session->add_graph(bytes, {}).value_or_throw()->graph_def(), folded));
  EXPECT_EQ(as_it_came.num_nodes(), 4);
  EXPECT_EQ(folded.num_nodes(), 2);
}

}  // namespace tutti::task_session_test

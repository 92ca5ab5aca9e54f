// Sends and receives in bodies, run by both executors: values of untaken branches, and loops.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "tests/support/kernel_runner.h"
#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/runtime/executor.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::transfer_test {

constexpr const char* kDevice = "/job:a/replica:0/task:0/device:CPU:0";

AttrMap edge(const std::string& name) {
  return {{"tensor_name", name}, {"send_device", kDevice}, {"send_device_incarnation", 1}, {"recv_device", kDevice}};
}

std::string key(const std::string& name) {
  return RendezvousKey{.send_device = kDevice, .send_incarnation = 1, .recv_device = kDevice, .name = name}.to_string();
}

class PlainKernels : public KernelSource {
 public:
  explicit PlainKernels(ResourceStore& resources) : resources_(resources) {}
  Result<std::shared_ptr<Kernel>> kernel_for(const Node& node) override {
    const KernelInit init{.node = node.name(),
                          .op = node.op_name(),
                          .attrs = node.attrs(),
                          .input_types = node.input_types(),
                          .output_types = node.output_types(),
                          .device = kDevice,
                          .services = {.resources = &resources_}};
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           builtin_ops()->find_kernel(node.op_name(), node.attrs(), kCpu)->make(init));
    return std::shared_ptr<Kernel>(std::move(kernel));
  }

 private:
  ResourceStore& resources_;
};

struct Outcome {
  Status status;
  std::vector<Tensor> results;
};

class TransferTest : public ::testing::Test {
 protected:
  Output recv(const std::string& name) {
    AttrMap attrs = edge(name);
    attrs["tensor_type"] = DType::kFloat;
    return graph_.add_exact({.op = "_Recv", .name = "recv_" + name, .attrs = attrs}).value_or_throw()->output();
  }
  std::string send(Output value, const std::string& name) {
    graph_.add_exact({.op = "_Send", .name = "send_" + name, .inputs = {value}, .attrs = edge(name)}).value_or_throw();
    return "send_" + name;
  }
  Output scalar(float value) { return constant(graph_, Tensor::scalar(value)); }

  std::unique_ptr<Executable> compiled(const std::vector<std::string>& fetches,
                                       const std::vector<std::string>& targets) {
    PlainKernels kernels(*resources_);
    FunctionBody body = extract_subgraph(graph_, {.fetches = fetches, .targets = targets}).value_or_throw();
    return compile(std::move(body), {.kernels = &kernels, .pool = &pool_}).value_or_throw();
  }

  // Runs it to its end. `sent` is sent first, empty tensors as dead values; what the run sent is in `received`.
  Outcome run(const Executable& executable, const std::map<std::string, Tensor>& sent,
              const std::map<std::string, Tensor*>& received = {}) {
    LocalRendezvous rendezvous;
    testing::TestStep step(*resources_);
    step.rendezvous = &rendezvous;
    for (const auto& [name, value] : sent) throw_if_error(rendezvous.send(key(name), value, !value.has_value()));
    Outcome outcome;
    std::atomic<bool> ended = false;
    executable.run(step, {}, [&](Status status, std::vector<Tensor> results) {
      outcome = {std::move(status), std::move(results)};
      ended = true;
      ended.notify_one();
    });
    ended.wait(false);
    Cancellation at_once;
    for (const auto& [name, value] : received) {
      bool arrived = false;
      rendezvous.recv(key(name), at_once, [&arrived, to = value](const Status&, Tensor v, bool dead) {
        EXPECT_EQ(dead, !v.has_value());
        *to = std::move(v);
        arrived = true;
      });
      EXPECT_TRUE(arrived) << name << " was never sent";
      if (!arrived) at_once.cancel(cancelled("it never came"));
    }
    return outcome;
  }

  std::unique_ptr<ResourceStore> resources_ = testing::make_test_store();
  ThreadPool pool_{"test", 2};
  Graph graph_{builtin_ops()};
};

TEST_F(TransferTest, ASendOnAnUntakenBranchSaysSo) {
  Node* branch = add_op(graph_, "Switch", {scalar(3), constant(graph_, Tensor::scalar(true))});
  const std::string taken = send(neg(branch->output(1)), "taken");
  const std::string untaken = send(neg(branch->output(0)), "untaken");
  auto executable = compiled({}, {taken, untaken});
  Tensor live;
  Tensor dead = Tensor::scalar(1.0f);
  EXPECT_TRUE(run(*executable, {}, {{"taken", &live}, {"untaken", &dead}}).status.ok());
  ASSERT_TRUE(live.has_value());
  EXPECT_EQ(live.scalar<float>(), -3.0f);
  EXPECT_FALSE(dead.has_value());
}

TEST_F(TransferTest, AMergeTakesTheReceivedBranchThatIsAlive) {
  Node* merge = add_op(graph_, "Merge", {neg(recv("a")), recv("b")});
  const std::string passed = send(graph_.find("recv_a")->output(), "passed");
  auto executable = compiled({merge->output(0).name()}, {passed});
  Tensor out = Tensor::scalar(1.0f);
  Outcome left = run(*executable, {{"a", Tensor()}, {"b", Tensor::scalar(5.0f)}}, {{"passed", &out}});
  ASSERT_TRUE(left.status.ok()) << left.status.to_string();
  EXPECT_EQ(left.results[0].scalar<float>(), 5.0f);
  EXPECT_FALSE(out.has_value());
}

TEST_F(TransferTest, ADeadResultIsAnErrorAlsoWithoutControlFlow) {
  auto executable = compiled({neg(recv("a")).name()}, {});
  for (int i = 0; i < 3; ++i) {  // a run leaves nothing behind for the next
    Outcome dead = run(*executable, {{"a", Tensor()}});
    EXPECT_EQ(dead.status.code(), Code::kInvalidArgument);
    EXPECT_NE(dead.status.message().find("not taken"), std::string::npos) << dead.status.message();
    Outcome live = run(*executable, {{"a", Tensor::scalar(2.0f)}});
    ASSERT_TRUE(live.status.ok()) << live.status.to_string();
    EXPECT_EQ(live.results[0].scalar<float>(), -2.0f);
  }
}

TEST_F(TransferTest, DeadnessReachesWhatNeedsItAndNothingElse) {
  Output a = recv("a");
  Output b = recv("b");
  const std::string of_a = send(neg(a), "of_a");
  const std::string of_both = send(neg(a) + b, "of_both");
  const std::string of_b = send(neg(b) * scalar(2), "of_b");
  Output after = identity(scalar(7));
  graph_.add_control_input(*after.node, *neg(a).node);
  const std::string after_a = send(after, "after_a");
  auto executable = compiled({neg(b).name()}, {of_a, of_both, of_b, after_a});
  for (bool a_lives : {false, true, false}) {
    Tensor got_a, got_both, got_b, got_after;
    Outcome out = run(*executable, {{"a", a_lives ? Tensor::scalar(1.0f) : Tensor()}, {"b", Tensor::scalar(4.0f)}},
                      {{"of_a", &got_a}, {"of_both", &got_both}, {"of_b", &got_b}, {"after_a", &got_after}});
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_EQ(out.results[0].scalar<float>(), -4.0f);
    EXPECT_EQ(got_b.scalar<float>(), -8.0f);
    EXPECT_EQ(got_a.has_value(), a_lives);
    EXPECT_EQ(got_both.has_value(), a_lives);
    EXPECT_EQ(got_after.has_value(), a_lives);
    EXPECT_EQ(a_lives ? got_both.scalar<float>() : 3.0f, 3.0f);
  }
}

TEST_F(TransferTest, WhatWouldWaitDoesNotWhenItIsDead) {
  Output a = recv("a");
  Node* queue = add_op(graph_, "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}});
  Node* next =
      add_op(graph_, "QueueDequeueV2", {queue->output()}, {{"component_types", std::vector<DType>{DType::kFloat}}});
  graph_.add_control_input(*next, *a.node);
  const std::string dequeued = send(next->output(), "dequeued");
  auto executable = compiled({}, {dequeued});
  Tensor got = Tensor::scalar(1.0f);
  EXPECT_TRUE(run(*executable, {{"a", Tensor()}}, {{"dequeued", &got}}).status.ok());
  EXPECT_FALSE(got.has_value());
}

TEST_F(TransferTest, ADeadReceiveTakesItsValueAllTheSame) {
  Output a = recv("a");
  Output b = recv("b");
  graph_.add_control_input(*b.node, *neg(a).node);
  const std::string passed = send(b, "passed");
  auto executable = compiled({}, {passed});
  Tensor got = Tensor::scalar(1.0f);
  EXPECT_TRUE(run(*executable, {{"a", Tensor()}, {"b", Tensor::scalar(2.0f)}}, {{"passed", &got}}).status.ok());
  EXPECT_FALSE(got.has_value());
}

TEST_F(TransferTest, AControlTriggerRunsAfterDeadNodes) {
  Node* trigger = add_op(graph_, "ControlTrigger", {});
  graph_.add_control_input(*trigger, *neg(recv("a")).node);
  Output after = identity(scalar(7));
  graph_.add_control_input(*after.node, *trigger);
  auto executable = compiled({after.name()}, {});
  Outcome out = run(*executable, {{"a", Tensor()}});
  ASSERT_TRUE(out.status.ok()) << out.status.to_string();
  EXPECT_EQ(out.results[0].scalar<float>(), 7.0f);
}

TEST_F(TransferTest, EveryIterationSendsAndReceivesItsOwnValue) {
  // for (i = 0; i < 5; i += 1) { send(i); total = received }, where the other end is the same body.
  auto enter = [&](Output value, bool is_constant = false) {
    return op1("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", is_constant}});
  };
  auto merge = [&](Output entered) {
    const std::string name = graph_.unique_name("Merge");
    return graph_
        .add_exact(
            {.op = "Merge", .name = name, .inputs = {entered, Output()}, .attrs = {{"T", DType::kFloat}, {"N", 2}}})
        .value_or_throw();
  };
  Node* count = merge(enter(scalar(0)));
  Node* total = merge(enter(scalar(0)));
  Output go_on = op1("LoopCond", {less(count->output(), enter(scalar(5), true))});
  Node* count_switch = add_op(graph_, "Switch", {count->output(), go_on});
  Node* total_switch = add_op(graph_, "Switch", {total->output(), go_on});
  Output i = count_switch->output(1);
  const std::string sent = send(i, "edge");
  Output received = recv("edge");
  graph_.add_control_input(*received.node, *identity(i).node);
  throw_if_error(graph_.set_input(*count, 1, op1("NextIteration", {i + enter(scalar(1), true)})));
  throw_if_error(graph_.set_input(
      *total, 1, op1("NextIteration", {total_switch->output(1) * enter(scalar(10), true) + received})));
  auto executable = compiled({op1("Exit", {total_switch->output(0)}).name()}, {sent});
  for (int repeat = 0; repeat < 2; ++repeat) {
    Outcome out = run(*executable, {});
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_EQ(out.results[0].scalar<float>(), 1234.0f) << "0, 1, 2, 3, 4, each in its own iteration";
  }
}

TEST_F(TransferTest, KeysTellLoopsAndIterationsApart) {
  class Recorder : public LocalRendezvous {
   public:
    Status send(const std::string& key, Tensor value, bool dead) override {
      keys.push_back(key);
      return LocalRendezvous::send(key, std::move(value), dead);
    }
    std::vector<std::string> keys;
  } recorder;
  auto enter = [](Output value, const std::string& frame) { return op1("Enter", {value}, {{"frame_name", frame}}); };
  const std::string outside = send(scalar(1), "outside");
  const std::string in_a = send(enter(scalar(1), "a"), "in_a");
  const std::string in_b = send(enter(scalar(1), "b"), "in_b");
  const std::string in_ab = send(enter(enter(scalar(1), "a"), "b"), "in_ab");
  auto executable = compiled({}, {outside, in_a, in_b, in_ab});
  std::set<std::string> places;
  for (int repeat = 0; repeat < 2; ++repeat) {
    testing::TestStep step(*resources_);
    step.rendezvous = &recorder;
    Status status = internal_error("it did not end");
    executable->run(step, {}, [&](const Status& s, const std::vector<Tensor>&) { status = s; });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  ASSERT_EQ(recorder.keys.size(), 8u);
  for (const std::string& key : recorder.keys) places.insert(key.substr(key.rfind(';') + 1));
  EXPECT_EQ(places.size(), 4u) << "the same in every run";
  EXPECT_TRUE(places.contains("0:0"));
}

}  // namespace tutti::transfer_test

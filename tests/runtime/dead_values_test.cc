// Values of untaken branches that cross a cut edge: bodies with sends and receives, run by both executors.

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "tests/support/kernel_runner.h"
#include "tutti/graph/subgraph.h"
#include "tutti/kernels/cpu/boundary.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/runtime/executor.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti {
namespace {

constexpr const char* kDevice = "/job:a/replica:0/task:0/device:CPU:0";

AttrMap edge(const std::string& name) {
  return {{"tensor_name", name}, {"send_device", kDevice}, {"send_device_incarnation", 1}, {"recv_device", kDevice}};
}

std::string key(const std::string& name) { return cpu::rendezvous_key(kDevice, 1, kDevice, name); }

class PlainKernels : public KernelSource {
 public:
  Result<std::shared_ptr<Kernel>> kernel_for(const Node& node) override {
    const KernelInit init{.node = node.name(),
                          .op = node.op_name(),
                          .attrs = node.attrs(),
                          .input_types = node.input_types(),
                          .output_types = node.output_types(),
                          .device = kDevice};
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           builtin_ops()->find_kernel(node.op_name(), node.attrs(), kCpu)->make(init));
    return std::shared_ptr<Kernel>(std::move(kernel));
  }
};

struct Outcome {
  Status status;
  std::vector<Tensor> results;
};

class DeadValuesTest : public ::testing::Test {
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
    PlainKernels kernels;
    FunctionBody body = extract_subgraph(graph_, {.fetches = fetches, .targets = targets}).value_or_throw();
    return compile(std::move(body), {.kernels = &kernels, .pool = &pool_}).value_or_throw();
  }

  // Runs it to its end. `sent` is sent first, empty tensors as dead values; what the run sent is in `received`.
  Outcome run(const Executable& executable, const std::map<std::string, Tensor>& sent,
              const std::map<std::string, Tensor*>& received = {}) {
    LocalRendezvous rendezvous;
    auto resources = testing::make_test_store();
    testing::TestStep step(*resources);
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
      rendezvous.recv(key(name), at_once, [&](const Status&, Tensor v, bool dead) {
        EXPECT_EQ(dead, !v.has_value());
        *value = std::move(v);
        arrived = true;
      });
      EXPECT_TRUE(arrived) << name << " was never sent";
      if (!arrived) at_once.cancel(cancelled("it never came"));
    }
    return outcome;
  }

  ThreadPool pool_{"test", 2};
  Graph graph_{builtin_ops()};
};

TEST_F(DeadValuesTest, ASendOnAnUntakenBranchSaysSo) {
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

TEST_F(DeadValuesTest, AMergeTakesTheReceivedBranchThatIsAlive) {
  Node* merge = add_op(graph_, "Merge", {neg(recv("a")), recv("b")});
  const std::string passed = send(graph_.find("recv_a")->output(), "passed");
  auto executable = compiled({merge->output(0).name()}, {passed});
  Tensor out = Tensor::scalar(1.0f);
  Outcome left = run(*executable, {{"a", Tensor()}, {"b", Tensor::scalar(5.0f)}}, {{"passed", &out}});
  ASSERT_TRUE(left.status.ok()) << left.status.to_string();
  EXPECT_EQ(left.results[0].scalar<float>(), 5.0f);
  EXPECT_FALSE(out.has_value());
}

}  // namespace
}  // namespace tutti

#include "tutti/strategies/replica_device_setter.h"

#include <gtest/gtest.h>

#include "tests/strategies/strategy_ops.h"

namespace tutti::replica_device_setter_test {

class ReplicaDeviceSetterTest : public ::testing::Test {
 protected:
  Node* add(const std::string& op, std::vector<Output> inputs = {}, const std::string& name = "") {
    NodeSpec spec{.op = op, .name = name, .inputs = std::move(inputs)};
    if (op != "Add" && op != "NoOp") spec.attrs["dtype"] = DType::kFloat;
    if (op == "VarHandleOp" || op == "VariableV2") spec.attrs["shape"] = PartialShape{2};
    return graph_.add_node(std::move(spec)).value_or_throw();
  }
  std::string variable_device(const std::string& op = "VarHandleOp") { return add(op)->requested_device(); }
  std::string other_device() { return add("NoOp")->requested_device(); }

  Graph graph_{testing::strategy_ops()};
};

TEST_F(ReplicaDeviceSetterTest, VariablesGoRoundAndComputationToTheWorker) {
  ClusterSpec cluster;
  for (int i = 0; i < 2; ++i) cluster.set("ps", i, str_cat("localhost:", 1000 + i));
  for (int i = 0; i < 3; ++i) cluster.set("worker", i, str_cat("localhost:", 2000 + i));
  ScopeGuard scope =
      graph_.device_scope(replica_device_setter({.cluster = cluster, .worker_device = "/job:worker/task:2"}));
  std::vector<Node*> vars;
  for (const char* name : {"v1", "v2", "v3"}) vars.push_back(add("VarHandleOp", {}, name));
  EXPECT_EQ(vars[0]->requested_device(), "/job:ps/task:0");
  EXPECT_EQ(vars[1]->requested_device(), "/job:ps/task:1");
  EXPECT_EQ(vars[2]->requested_device(), "/job:ps/task:0");
  Output a = add("ReadVariableOp", {vars[0]->output()})->output();
  EXPECT_EQ(add("Add", {a, a})->requested_device(), "/job:worker/task:2");
}

TEST_F(ReplicaDeviceSetterTest, TheCounterMovesOnlyWhenTheJobIsApplied) {
  ScopeGuard scope = graph_.device_scope(replica_device_setter({.ps_tasks = 3}));
  EXPECT_EQ(variable_device(), "/job:ps/task:0");
  {
    ScopeGuard other = graph_.device_scope("/job:worker/task:1");
    EXPECT_EQ(variable_device(), "/job:worker/task:1");
  }
  EXPECT_EQ(variable_device("VariableV2"), "/job:ps/task:1");
  {
    ScopeGuard pinned = graph_.device_scope("/task:7");
    EXPECT_EQ(variable_device(), "/job:ps/task:7");
  }
  EXPECT_EQ(variable_device(), "/job:ps/task:0") << "a pinned task is chosen for all the same";
}

TEST_F(ReplicaDeviceSetterTest, InnerDevicesMerge) {
  ScopeGuard scope = graph_.device_scope(replica_device_setter({.ps_tasks = 2}));
  ScopeGuard gpu = graph_.device_scope("/gpu:0");
  EXPECT_EQ(variable_device(), "/job:ps/task:0/device:GPU:0");
  EXPECT_EQ(other_device(), "/job:worker/device:GPU:0");
  ScopeGuard cancelled = graph_.device_scope("");
  EXPECT_EQ(other_device(), "");
}

TEST_F(ReplicaDeviceSetterTest, TheParameterServersDeviceMayNameMore) {
  ScopeGuard scope = graph_.device_scope(replica_device_setter({.ps_tasks = 2, .ps_device = "/job:ps/cpu:0"}));
  EXPECT_EQ(variable_device(), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(variable_device(), "/job:ps/task:1/device:CPU:0");
}

TEST_F(ReplicaDeviceSetterTest, WithoutMergingNodesKeepTheirDevice) {
  ScopeGuard scope = graph_.device_scope(replica_device_setter({.ps_tasks = 2, .merge_devices = false}));
  EXPECT_EQ(variable_device(), "/job:ps/task:0");
  ScopeGuard cpu = graph_.device_scope("/cpu:0");
  EXPECT_EQ(variable_device(), "/device:CPU:0");
}

TEST_F(ReplicaDeviceSetterTest, NoParameterServersNoEffect) {
  EXPECT_FALSE(replica_device_setter({}));
  ClusterSpec workers_only;
  workers_only.set("worker", 0, "localhost:1");
  DeviceFunction none = replica_device_setter({.cluster = workers_only});
  EXPECT_FALSE(none);
  ScopeGuard outer = graph_.device_scope("/job:worker/task:1");
  ScopeGuard scope = graph_.device_scope(none);
  EXPECT_EQ(variable_device(), "/job:worker/task:1");
}

TEST_F(ReplicaDeviceSetterTest, SeveralWorkersNeedAParameterServer) {
  EXPECT_FALSE(replica_device_setter({.cluster = ClusterSpec::from_flags("", "a:1").value_or_throw()})) << "alone";
  for (const char* json : {R"({"worker": ["a:1", "b:1"]})", R"({"chief": ["a:1"], "worker": ["b:1"]})"}) {
    const ClusterSpec cluster = ClusterSpec::from_json(json).value_or_throw();
    try {
      (void)replica_device_setter({.cluster = cluster});
      ADD_FAILURE() << "each would train by itself";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("the cluster has 2 workers and no task of job \"ps\""),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(ReplicaDeviceSetterTest, OpsAndStrategyMayBeGiven) {
  int asked = 0;
  auto strategy = [&asked](const NodeSpec& node) {
    EXPECT_EQ(node.op, "NoOp");
    EXPECT_FALSE(node.name.empty());
    return asked++ == 0 ? 1 : 2;
  };
  ScopeGuard scope =
      graph_.device_scope(replica_device_setter({.ps_tasks = 2, .ps_ops = {"NoOp"}, .ps_strategy = strategy}));
  EXPECT_EQ(other_device(), "/job:ps/task:1");
  EXPECT_EQ(variable_device(), "/job:worker");
  Result<Node*> bad = graph_.add_node({.op = "NoOp"});
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("parameter server 2 of 2"), std::string::npos) << bad.status().message();
  EXPECT_THROW((void)replica_device_setter({.ps_tasks = 1, .ps_device = "nonsense"}), Error);
}

}  // namespace tutti::replica_device_setter_test

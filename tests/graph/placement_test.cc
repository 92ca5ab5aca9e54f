#include "tutti/graph/placement.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"

namespace tutti::placement_test {

using testing::add;
using testing::constant;
using testing::placeholder;
using testing::test_ops;

constexpr char kWorker[] = "/job:worker/replica:0/task:0/device:CPU:0";
constexpr char kPs0[] = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr char kPs1[] = "/job:ps/replica:0/task:1/device:CPU:0";
constexpr char kGpu[] = "/job:worker/replica:0/task:0/device:GPU:0";

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() {
    for (const char* name : {kGpu, kWorker, kPs0, kPs1})
      options_.devices.push_back(DeviceName::parse(name).value_or_throw());
    // MatMul runs everywhere, the rest on CPUs.
    options_.has_kernel = [](const Node& node, const std::string& type) {
      return type == "CPU" || node.op_name() == "MatMul" || node.op_name() == "Const" || node.op_name() == "Shape";
    };
  }
  Node* on(const std::string& device, const std::string& op, std::vector<Output> inputs, AttrMap attrs = {},
           const std::string& name = "") {
    ScopeGuard scope = graph_.device_scope(device);
    return add(graph_, op, std::move(inputs), std::move(attrs), name);
  }
  Node* variable(const std::string& device, const std::string& name) {
    return on(device, "VariableV2", {}, {{"shape", PartialShape{2, 2}}, {"dtype", DType::kFloat}}, name);
  }
  std::string error() {
    Status status = place(graph_, options_);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  }

  Graph graph_{test_ops()};
  PlacementOptions options_;
};

TEST_F(PlacementTest, TakesTheBestDeviceWithAKernel) {
  Output x = placeholder(graph_, DType::kFloat, {2, 2}, "x");
  Node* product = add(graph_, "MatMul", {x, x});
  Node* neg = add(graph_, "Neg", {product->output()});
  Node* pinned = on("/job:ps/task:1", "Neg", {x});
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(product->assigned_device(), kGpu);
  EXPECT_EQ(neg->assigned_device(), kWorker);
  EXPECT_EQ(pinned->assigned_device(), kPs1);
}

TEST_F(PlacementTest, SmallThingsGoWhereTheyAreUsed) {
  Output c = constant(graph_, Tensor(DType::kFloat, Shape{2, 2}));
  Node* user = on("/job:ps/task:1", "MatMul", {c, c});
  Node* shape = add(graph_, "Shape", {user->output()});
  Output shared = constant(graph_, Tensor(DType::kFloat, Shape{2, 2}));
  on("/job:ps/task:0", "Neg", {shared});
  on("/job:ps/task:1", "Neg", {shared});
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(c.node->assigned_device(), kPs1);
  EXPECT_EQ(shape->assigned_device(), kPs1);
  EXPECT_EQ(shared.node->assigned_device(), kGpu);
}

TEST_F(PlacementTest, ReferencesHandlesAndGroupsStayTogether) {
  Node* v = variable("/job:ps/task:1", "v");
  Output c = constant(graph_, Tensor(DType::kFloat, Shape{2, 2}));
  Node* assign = add(graph_, "Assign", {v->output(), c});
  Node* read = add(graph_, "Identity", {v->output()});
  Node* handle = on("/job:ps/task:0", "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{2, 2}}});
  Node* load = add(graph_, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}});
  Node* with =
      add(graph_, "Neg", {load->output()}, {{"_class", std::vector<std::string>{"loc:@v", "other", "loc:@gone"}}});
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(assign->assigned_device(), kPs1);
  EXPECT_EQ(read->assigned_device(), kWorker);  // reads a value, needs no reference
  EXPECT_EQ(load->assigned_device(), kPs0);
  EXPECT_EQ(with->assigned_device(), kPs1);
}

TEST_F(PlacementTest, ACallMayUseHandlesOfSeveralDevices) {
  AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape{2}}};
  Node* a = on("/job:ps/task:0", "VarHandleOp", {}, attrs);
  Node* b = on("/job:ps/task:1", "VarHandleOp", {}, attrs);
  Node* call = add(graph_, "StatefulPartitionedCall", {a->output(), b->output()},
                   {{"f", FunctionRef{"f", nullptr}}, {"Tout", EmptyList{}}});
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(call->assigned_device(), kWorker);
}

TEST_F(PlacementTest, ConflictsAreNamed) {
  variable("/job:ps/task:0", "v");
  on("/job:ps/task:1", "NoOp", {}, {{"_class", std::vector<std::string>{"loc:@v"}}}, "n");
  std::string message = error();
  EXPECT_EQ(message.find("Cannot assign a device for operation n: it asks for /job:ps/task:1, but must be with v, "
                         "which asks for /job:ps/task:0"),
            0u)
      << message;
  options_.allow_soft_placement = true;  // never softens a task: they part
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(graph_.find("v")->assigned_device(), kPs0);
  EXPECT_EQ(graph_.find("n")->assigned_device(), kPs1);
}

TEST_F(PlacementTest, StateIsStrongerThanItsUsers) {
  Node* v = variable("/job:ps/task:0", "v");
  Node* assign = on("/job:ps/task:1", "Assign", {v->output(), constant(graph_, Tensor(DType::kFloat, Shape{2, 2}))});
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(v->assigned_device(), kPs0);
  EXPECT_EQ(assign->assigned_device(), kPs0);
}

TEST_F(PlacementTest, ReasonsAreGiven) {
  Node* v = variable("/job:ps/task:1", "v");
  Output c = constant(graph_, Tensor(DType::kFloat, Shape{2, 2}));
  Node* assign = add(graph_, "Assign", {v->output(), c});
  Node* read = add(graph_, "Identity", {v->output()});
  Node* shape = add(graph_, "Shape", {read->output()});
  std::vector<PlacementReason> why;
  ASSERT_TRUE(place(graph_, options_, &why).ok());
  EXPECT_EQ(why[v->id()].kind, PlacementReason::kAsked);
  EXPECT_EQ(why[assign->id()].kind, PlacementReason::kWithOther);
  EXPECT_EQ(why[assign->id()].other, v);
  EXPECT_EQ(why[c.node->id()].kind, PlacementReason::kReaders);
  EXPECT_EQ(why[c.node->id()].other, assign);
  EXPECT_EQ(why[read->id()].kind, PlacementReason::kFirstDevice);
  EXPECT_EQ(why[shape->id()].kind, PlacementReason::kInput);
  ASSERT_TRUE(place(graph_, options_, &why).ok());
  EXPECT_EQ(why[v->id()].kind, PlacementReason::kStays);
}

TEST_F(PlacementTest, DevicesAreSorted) {
  std::vector<DeviceName> devices;
  for (const char* name : {kPs1, kPs0, kWorker, kGpu}) devices.push_back(DeviceName::parse(name).value_or_throw());
  sort_for_placement(devices, DeviceName::parse("/job:ps/replica:0/task:1").value_or_throw());
  EXPECT_EQ(devices[0].to_string(), kGpu);
  EXPECT_EQ(devices[1].to_string(), kPs1);
  EXPECT_EQ(devices[2].to_string(), kPs0);
  EXPECT_EQ(devices[3].to_string(), kWorker);
}

TEST_F(PlacementTest, UnsatisfiableRequestsListTheCandidates) {
  on("/job:nowhere", "NoOp", {}, {}, "n");
  EXPECT_EQ(error(), str_cat("Cannot assign a device for operation n: no device matches /job:nowhere. Candidates: ",
                             kGpu, ", ", kWorker, ", ", kPs0, ", ", kPs1, "; types with kernels: CPU"));
}

TEST_F(PlacementTest, SoftPlacementGivesUpTheTypeOnly) {
  Node* node = on("/job:ps/task:1/device:GPU:0", "NoOp", {}, {}, "n");
  EXPECT_NE(error().find("no device matches /job:ps/task:1/device:GPU:0"), std::string::npos);
  options_.allow_soft_placement = true;
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(node->assigned_device(), kPs1);

  Node* on_gpu = on("/job:worker/device:GPU:0", "Neg", {constant(graph_, Tensor::scalar(1.0f))}, {}, "g");
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(on_gpu->assigned_device(), kWorker);
  options_.allow_soft_placement = false;
  graph_.set_requested_device(*node, "");
  EXPECT_NE(error().find("operation g: Neg \"g\" has no kernel for /job:worker/device:GPU:0"), std::string::npos);
}

TEST_F(PlacementTest, OpsWithoutKernelsAreNamed) {
  options_.has_kernel = [](const Node&, const std::string&) { return false; };
  add(graph_, "NoOp", {}, {}, "n");
  EXPECT_NE(error().find("NoOp \"n\" has no kernel for any device"), std::string::npos);
  options_.devices.clear();
  EXPECT_NE(error().find("no devices"), std::string::npos);
}

TEST_F(PlacementTest, BadNamesAreReported) {
  NodeSpec spec{.op = "NoOp", .name = "n", .device = "nonsense"};
  (void)graph_.add_exact(spec).value_or_throw();
  EXPECT_NE(error().find("Cannot assign a device for operation n: "), std::string::npos);
}

TEST_F(PlacementTest, StateStaysWhereItIs) {
  Node* v = variable("", "v");
  graph_.set_assigned_device(*v, kPs1);
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(v->assigned_device(), kPs1);
}

// As when a graph that was placed softly is extended.
TEST_F(PlacementTest, StateStaysWhereItWasPutSoftly) {
  options_.allow_soft_placement = true;
  const std::string missing = "/job:ps/task:1/device:GPU:7";
  Node* v = variable(missing, "v");
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(v->assigned_device(), kPs1);
  Node* read = on(missing, "Identity", {v->output()}, {}, "read");
  Node* other = on(missing, "NoOp", {}, {{"_class", std::vector<std::string>{"loc:@v"}}}, "other");
  ASSERT_TRUE(place(graph_, options_).ok()) << error();
  for (const Node* node : {v, read, other}) EXPECT_EQ(node->assigned_device(), kPs1) << node->describe();
}

TEST_F(PlacementTest, LongChainInOneGroup) {
  Output x = placeholder(graph_, DType::kFloat, {}, "x");
  for (int i = 0; i < 100'000; ++i) {
    x = add(graph_, "Neg", {x}, {{"_class", std::vector<std::string>{str_cat("loc:@", x.node->name())}}})->output();
  }
  graph_.set_requested_device(*x.node, kPs1);
  ASSERT_TRUE(place(graph_, options_).ok());
  EXPECT_EQ(graph_.find("x")->assigned_device(), kPs1);
}

}  // namespace tutti::placement_test

#include "tutti/graph/partition.h"

#include <gtest/gtest.h>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::partition_test {

const std::string kA = "/job:a/replica:0/task:0/device:CPU:0";
const std::string kB = "/job:b/replica:0/task:0/device:CPU:0";

class PartitionTest : public ::testing::Test {
 protected:
  PartitionTest() {
    options_.part_of = [](const std::string& device) { return std::string(task_of(device)); };
    options_.incarnation_of = [](const std::string& device) {
      return device == kA ? 0xfedcba9876543210u : std::uint64_t{7};
    };
    options_.client_device = kA;
  }
  Output on(const std::string& device, Output value) {
    graph_.set_assigned_device(*value.node, device);
    return value;
  }
  Result<Partitioning> cut(const Signature& signature) {
    return partition(extract_subgraph(graph_, signature).value_or_throw(), options_);
  }
  static const std::string& text(const Node* node, const char* attr) { return node->attr<std::string>(attr); }

  Graph graph_{builtin_ops()};
  PartitionOptions options_;
};

TEST_F(PartitionTest, NamesAndAttributesAreTensorFlows) {
  Output x = on(kB, placeholder(graph_, DType::kFloat, PartialShape{2}, "x"));
  Output y = on(kB, op1("Neg", {x}, {}, "y"));
  Output z = on(kA, op1("Neg", {y}, {}, "z"));
  graph_.add_control_input(*on(kA, op1("Neg", {z}, {}, "w")).node, *y.node);
  Partitioning cut_up = cut({.feeds = {"x:0"}, .fetches = {"z:0"}, .targets = {"w"}}).value_or_throw();
  ASSERT_EQ(cut_up.parts.size(), 2u);
  const Part& a = cut_up.parts[0];
  const Part& b = cut_up.parts[1];
  EXPECT_EQ(a.name, "/job:a/replica:0/task:0");

  const Node* feed = a.graph->find("_recv_x_0");
  ASSERT_NE(feed, nullptr);
  EXPECT_EQ(feed->op_name(), "_Recv");
  EXPECT_EQ(text(feed, "tensor_name"), "x:0");
  EXPECT_EQ(text(feed, "send_device"), kA);
  EXPECT_EQ(text(feed, "recv_device"), kA);
  EXPECT_TRUE(feed->attr<bool>("client_terminated"));
  EXPECT_EQ(feed->attr<std::int64_t>("send_device_incarnation"), static_cast<std::int64_t>(0xfedcba9876543210u));
  ASSERT_EQ(a.feeds.size(), 1u);
  EXPECT_EQ(a.feeds[0].key, kA + ";fedcba9876543210;" + kA + ";x:0;0:0");
  ASSERT_EQ(a.fetches.size(), 1u);
  EXPECT_EQ(a.fetches[0].key, kA + ";fedcba9876543210;" + kA + ";z:0;0:0");
  EXPECT_EQ(a.graph->find("_send_z_0")->op_name(), "_Send");

  const Node* sent = b.graph->find("y")->graph().consumers()[b.graph->find("y")->id()][0];
  const Node* recv = a.graph->find("z")->input(0).node;
  EXPECT_EQ(recv->op_name(), "_Recv");
  EXPECT_EQ(recv->name().find("y_S"), 0u) << recv->name();
  EXPECT_EQ(text(recv, "tensor_name").find("edge_"), 0u);
  EXPECT_TRUE(text(recv, "tensor_name").ends_with("_y"));
  EXPECT_EQ(text(recv, "send_device"), kB);
  EXPECT_EQ(text(recv, "recv_device"), kA);
  EXPECT_EQ(recv->attr<std::int64_t>("send_device_incarnation"), 7);
  EXPECT_EQ(recv->output_shape(0), PartialShape{2});
  EXPECT_FALSE(recv->attr<bool>("client_terminated"));
  EXPECT_EQ(sent->requested_device(), kB);

  const Node* arrived = a.graph->find("w")->control_inputs()[0];
  EXPECT_EQ(arrived->op_name(), "Identity");
  const Node* token = arrived->input(0).node;
  EXPECT_EQ(token->op_name(), "_Recv");
  bool found = false;
  for (const Node* node : b.graph->nodes()) {
    if (node->op_name() != "Const") continue;
    found = true;
    EXPECT_EQ(node->name().find("y/ctrl_S"), 0u);
    ASSERT_EQ(node->control_inputs().size(), 1u);
    EXPECT_EQ(node->control_inputs()[0]->name(), "y");
  }
  EXPECT_TRUE(found);
  ASSERT_EQ(cut_up.crossings.size(), 3u);
}

TEST_F(PartitionTest, NumbersGoOnFromCutToCut) {
  on(kB, op1("Neg", {on(kA, constant(graph_, Tensor::scalar(1.0f)))}, {}, "y"));
  Partitioning first = cut({.targets = {"y"}}).value_or_throw();
  options_.first_number = first.next_number;
  Partitioning second = cut({.targets = {"y"}}).value_or_throw();
  for (const Node* node : second.parts[0].graph->nodes()) {
    if (node->op_name() != "_Send") continue;
    EXPECT_EQ(first.parts[0].graph->find(node->name()), nullptr) << node->name();
  }
  EXPECT_GT(second.next_number, first.next_number);
}

TEST_F(PartitionTest, FeedsThatNothingReadsHaveNoEnd) {
  on(kB, placeholder(graph_, DType::kFloat, PartialShape{2}, "x"));
  on(kB, op1("Neg", {on(kB, constant(graph_, Tensor::scalar(1.0f)))}, {}, "y"));
  Partitioning cut_up = cut({.feeds = {"x:0"}, .targets = {"y"}}).value_or_throw();
  ASSERT_EQ(cut_up.parts.size(), 1u);
  EXPECT_EQ(cut_up.parts[0].name, "/job:b/replica:0/task:0");
  EXPECT_TRUE(cut_up.parts[0].feeds.empty());
}

TEST_F(PartitionTest, NewNamesAvoidTheGraphsOwn) {
  Output x = on(kA, op1("Neg", {on(kA, constant(graph_, Tensor::scalar(1.0f)))}, {}, "x"));
  Output taken = on(kB, op1("Neg", {x}, {}, "x_S0"));
  on(kB, op1("Neg", {taken}, {}, "x_S1"));
  Partitioning cut_up = cut({.fetches = {"x_S1:0"}}).value_or_throw();
  for (const Part& part : cut_up.parts) {
    Graph copy(builtin_ops());
    EXPECT_TRUE(import_graph_def(export_graph_def(*part.graph), copy).ok());
  }
}

TEST_F(PartitionTest, VariantsCrossLikeOtherValues) {
  const Output shape = on(kA, constant(graph_, Tensor::scalar<std::int32_t>(-1)));
  const Output limit = on(kA, constant(graph_, Tensor::scalar<std::int32_t>(-1)));
  const AttrMap attrs{{"element_dtype", DType::kFloat}};
  const Output list = on(kA, op1("EmptyTensorList", {shape, limit}, attrs, "list"));
  on(kB, op1("TensorListLength", {list}, {}, "length"));
  const Partitioning cut_up = cut({.fetches = {"length:0"}}).value_or_throw();
  ASSERT_EQ(cut_up.parts.size(), 2u);
  const auto crosses = [](const Crossing& c) { return c.tensor == "list:0" && c.dtype == DType::kVariant; };
  EXPECT_EQ(std::count_if(cut_up.crossings.begin(), cut_up.crossings.end(), crosses), 1);
}

TEST_F(PartitionTest, HandlesDoNotLeaveTheirPart) {
  AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape{2}}};
  Output handle = on(kA, add_op(graph_, "VarHandleOp", {}, std::move(attrs), "v")->output());
  on(kB, op1("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "read"));
  Status status = cut({.fetches = {"read:0"}}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message().find("ReadVariableOp \"read\" on /job:b"), 0u) << status.message();
  EXPECT_NE(status.message().find("VarHandleOp \"v\""), std::string::npos) << status.message();
}

TEST_F(PartitionTest, ArgumentsThatAGraphBringsAlongAreNodesLikeOthers) {
  Node* arg =
      graph_.add_exact({.op = "_Arg", .name = "a", .attrs = {{"T", DType::kFloat}, {"index", 0}}}).value_or_throw();
  on(kA, arg->output());
  Output y = on(kB, op1("Neg", {arg->output()}, {}, "y"));
  graph_.add_control_input(*on(kA, op1("Neg", {y}, {}, "z")).node, *arg);
  Partitioning cut_up = cut({.fetches = {"z:0"}}).value_or_throw();
  EXPECT_NE(cut_up.parts[0].graph->find("a"), nullptr);
  EXPECT_TRUE(cut_up.parts[0].feeds.empty());
}

TEST_F(PartitionTest, AVeryLongChainIsCut) {
  Output x = on(kA, constant(graph_, Tensor::scalar(1.0f)));
  for (int i = 0; i < 100'000; ++i) x = on(i % 2 == 0 ? kB : kA, neg(x));
  Partitioning cut_up = cut({.fetches = {x.name()}}).value_or_throw();
  EXPECT_EQ(cut_up.crossings.size(), 100'000u);
}

}  // namespace tutti::partition_test

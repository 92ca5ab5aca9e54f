#include "tutti/graph/graph.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"

namespace tutti::graph_test {

using testing::add;
using testing::constant;
using testing::placeholder;
using testing::test_ops;

class GraphTest : public ::testing::Test {
 protected:
  Status error(NodeSpec spec) {
    Result<Node*> node = graph_.add_node(std::move(spec));
    return node.ok() ? Status() : node.status();
  }
  Output floats(PartialShape shape, const std::string& name = "") {
    return placeholder(graph_, DType::kFloat, shape, name);
  }
  Graph graph_{test_ops()};
};

TEST_F(GraphTest, AddsNodesAndFindsThem) {
  Output a = floats({2, 3}, "a");
  Output b = floats({3, 4}, "b");
  Node* product = add(graph_, "MatMul", {a, b}, {}, "product");
  EXPECT_EQ(product->attr<DType>("T"), DType::kFloat);
  EXPECT_FALSE(product->attr<bool>("transpose_a"));
  EXPECT_EQ(product->output_shape(0), (PartialShape{2, 4}));
  EXPECT_EQ(product->describe(), "MatMul \"product\"");
  EXPECT_EQ(product->output().name(), "product:0");
  EXPECT_EQ(graph_.find("product"), product);
  EXPECT_EQ(graph_.find("nothing"), nullptr);
  EXPECT_EQ(graph_.num_nodes(), 3);
  EXPECT_EQ(*graph_.find_output("product"), product->output());
  EXPECT_EQ(*graph_.find_output("product:0"), product->output());
  EXPECT_EQ(graph_.find_output("product:1").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_.find_output("product:-1").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_.find_output("product:x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_.find_output("nothing:0").status().code(), Code::kNotFound);
}

TEST_F(GraphTest, ErrorsNameNodeOpAndValues) {
  Output a = floats({2, 3}, "a");
  Output i = placeholder(graph_, DType::kInt32, {2, 3}, "i");
  Status status = error({.op = "Nope", .name = "x"});
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "node \"x\": unknown op \"Nope\"");
  EXPECT_EQ(error({.op = "MatMul", .name = "m", .inputs = {a}}).message(), "MatMul \"m\": takes 2 inputs, got 1");
  EXPECT_EQ(error({.op = "MatMul", .name = "t", .inputs = {a, i}}).message(),
            "MatMul \"t\": input 1 must be float, got int32 from \"i:0\"");
  EXPECT_EQ(error({.op = "MatMul", .name = "s", .inputs = {a, a}}).message(),
            "MatMul \"s\": inner dimensions 3 and 2 differ (input shapes: [2,3], [2,3])");
  EXPECT_NE(error({.op = "MatMul", .name = "k", .inputs = {i, i}})
                .message()
                .find("MatMul \"k\": attribute T is int32, must be one of"),
            std::string::npos);
  EXPECT_EQ(error({.op = "Identity", .name = "n", .inputs = {Output()}}).message(),
            "Identity \"n\": input 0 is missing");
  EXPECT_EQ(error({.op = "Identity", .name = "o", .inputs = {{a.node, 1}}}).message(),
            "Identity \"o\": input 0 is output 1 of Placeholder \"a\", which has 1 outputs");
  Graph other(test_ops());
  EXPECT_EQ(error({.op = "Identity", .name = "f", .inputs = {placeholder(other, DType::kFloat, {}, "far")}}).message(),
            "Identity \"f\": input 0 \"far\" is of another graph");
  EXPECT_EQ(graph_.num_nodes(), 2);
}

TEST_F(GraphTest, RefusesBadNames) {
  for (const char* name : {"", " ", "a b", "-a", "/a", "a:0", "^a", "\xff\xfe", "a\n"}) {
    EXPECT_EQ(check_node_name(name).code(), Code::kInvalidArgument) << name;
  }
  for (const char* name : {"a", "A.b/c_d-e>f\\g", ".a", "0", "_internal"})
    EXPECT_TRUE(check_node_name(name).ok()) << name;
  std::string huge(100 << 20, 'x');
  Status status = error({.op = "NoOp", .name = huge});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("104857600 bytes"), std::string::npos);
  EXPECT_LT(status.message().size(), 300u);
  status = error({.op = "NoOp", .name = "\xff\xfe"});
  EXPECT_NE(status.message().find("\\xff\\xfe"), std::string::npos) << status.message();
}

TEST_F(GraphTest, ReferencesFlowIntoBoth) {
  Node* variable = add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  Node* read = add(graph_, "Identity", {variable->output()}, {}, "read");
  EXPECT_FALSE(read->output_types()[0].is_ref);
  Node* assign = add(graph_, "Assign", {variable->output(), read->output()}, {}, "assign");
  EXPECT_TRUE(assign->output_types()[0].is_ref);
  EXPECT_EQ(error({.op = "Assign", .name = "bad", .inputs = {read->output(), read->output()}}).message().substr(0, 40),
            "Assign \"bad\": input 0 must be float_ref,");
}

TEST_F(GraphTest, NamesAreUniqueAsInTensorFlow) {
  EXPECT_EQ(add(graph_, "NoOp")->name(), "NoOp");
  EXPECT_EQ(add(graph_, "NoOp")->name(), "NoOp_1");
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "noop")->name(), "noop_2");  // case does not make a difference
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "a_1")->name(), "a_1");
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "a")->name(), "a");
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "a")->name(), "a_2");
  {
    ScopeGuard dense = graph_.name_scope("dense");
    EXPECT_EQ(graph_.current_name_scope(), "dense");
    EXPECT_EQ(add(graph_, "NoOp")->name(), "dense/NoOp");
    ScopeGuard inner = graph_.name_scope("inner");
    EXPECT_EQ(add(graph_, "NoOp", {}, {}, "x")->name(), "dense/inner/x");
    ScopeGuard root = graph_.name_scope("");
    EXPECT_EQ(add(graph_, "NoOp", {}, {}, "x")->name(), "x");
  }
  {
    ScopeGuard dense = graph_.name_scope("dense");
    EXPECT_EQ(add(graph_, "NoOp")->name(), "dense_1/NoOp");
  }
  {
    ScopeGuard again = graph_.name_scope("dense/");
    EXPECT_EQ(add(graph_, "NoOp")->name(), "dense/NoOp_1");
    EXPECT_EQ(add(graph_, "NoOp", {}, {}, "exact/")->name(), "exact");
  }
  EXPECT_EQ(graph_.current_name_scope(), "");
  EXPECT_EQ(graph_.add_exact({.op = "NoOp", .name = "exact"}).status().code(), Code::kAlreadyExists);
}

TEST_F(GraphTest, DeviceScopesMergePartByPart) {
  ScopeGuard outer = graph_.device_scope("/job:ps/task:1");
  EXPECT_EQ(add(graph_, "NoOp")->requested_device(), "/job:ps/task:1");
  {
    ScopeGuard inner = graph_.device_scope("/task:2/device:CPU:0");
    EXPECT_EQ(add(graph_, "NoOp")->requested_device(), "/job:ps/task:2/device:CPU:0");
    NodeSpec spec{.op = "NoOp", .device = "/job:worker"};
    EXPECT_EQ(graph_.add_node(spec).value_or_throw()->requested_device(), "/job:worker/task:2/device:CPU:0");
    ScopeGuard none = graph_.device_scope("");
    EXPECT_EQ(add(graph_, "NoOp")->requested_device(), "");
  }
  EXPECT_EQ(add(graph_, "NoOp")->requested_device(), "/job:ps/task:1");
  EXPECT_THROW((void)graph_.device_scope("nonsense"), Error);
  EXPECT_EQ(error({.op = "NoOp", .device = "nonsense"}).code(), Code::kInvalidArgument);
}

TEST_F(GraphTest, DeviceFunctionsSeeWhatInnerScopesSay) {
  std::vector<std::string> seen;
  auto function = [&seen](const NodeSpec& node) {
    seen.push_back(str_cat(node.op, " ", node.name, " ", node.device));
    return node.device.empty() ? std::string("/job:ps/task:1") : node.device;
  };
  ScopeGuard outer = graph_.device_scope("/job:worker/device:CPU:0");
  ScopeGuard chosen = graph_.device_scope(function);
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "a")->requested_device(), "/job:ps/task:1/device:CPU:0");
  ScopeGuard inner = graph_.device_scope("/task:2");
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "b")->requested_device(), "/job:worker/task:2/device:CPU:0");
  ScopeGuard no_effect = graph_.device_scope(DeviceFunction());
  EXPECT_EQ(add(graph_, "NoOp", {}, {}, "c")->requested_device(), "/job:worker/task:2/device:CPU:0");
  EXPECT_EQ(seen, (std::vector<std::string>{"NoOp a ", "NoOp b /task:2", "NoOp c /task:2"}));
  {
    ScopeGuard none = graph_.device_scope("");
    EXPECT_EQ(add(graph_, "NoOp", {}, {}, "d")->requested_device(), "");
    EXPECT_EQ(seen.size(), 3u) << "cancelled";
  }
  ScopeGuard bad = graph_.device_scope([](const NodeSpec&) { return std::string("nonsense"); });
  EXPECT_EQ(error({.op = "NoOp"}).code(), Code::kInvalidArgument);
  ScopeGuard failing = graph_.device_scope(
      [](const NodeSpec& node) -> std::string { throw Error(not_found("no device for ", node.name)); });
  EXPECT_EQ(error({.op = "NoOp", .name = "e"}).message(), "NoOp \"e\": no device for e");
}

TEST_F(GraphTest, ControlAndColocationScopes) {
  Node* first = add(graph_, "NoOp", {}, {}, "first");
  Output a = floats({}, "a");
  Node* variable;
  {
    ScopeGuard device = graph_.device_scope("/job:ps");
    variable = add(graph_, "VariableV2", {}, {{"shape", PartialShape{}}, {"dtype", DType::kFloat}}, "v");
  }
  ScopeGuard control = graph_.control_dependencies({first, a.node});
  ScopeGuard device = graph_.device_scope("/job:worker");
  ScopeGuard colocate = graph_.colocate_with(*variable);
  Node* node = add(graph_, "Identity", {a});
  ASSERT_EQ(node->control_inputs().size(), 1u);  // `a` is waited for as an input already
  EXPECT_EQ(node->control_inputs()[0], first);
  EXPECT_EQ(node->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@v"});
  EXPECT_EQ(node->requested_device(), "/job:ps");
}

TEST_F(GraphTest, OrdersAnyDepthWithoutRecursion) {
  constexpr int kLength = 100'000;
  Output x = floats({}, "x");
  for (int i = 0; i < kLength; ++i) x = add(graph_, "Neg", {x})->output();
  std::vector<Node*> order = graph_.topological_order().value_or_throw();
  ASSERT_EQ(order.size(), kLength + 1u);
  EXPECT_EQ(order.back(), x.node);
  EXPECT_EQ(graph_.consumers()[0].size(), 1u);
}

TEST_F(GraphTest, OrderPutsSourcesFirst) {
  Output a = floats({}, "a");
  Node* early = add(graph_, "Neg", {a}, {}, "early");
  Node* late = add(graph_, "Neg", {a}, {}, "late");
  ASSERT_TRUE(graph_.set_input(*early, 0, late->output()).ok());
  EXPECT_EQ(testing::names(graph_.topological_order().value_or_throw()),
            (std::vector<std::string>{"a", "late", "early"}));
}

TEST_F(GraphTest, CycleIsNamed) {
  Output a = floats({}, "a");
  Node* b = add(graph_, "Neg", {a}, {}, "b");
  Node* c = add(graph_, "Neg", {b->output()}, {}, "c");
  Node* d = add(graph_, "Neg", {c->output()}, {}, "after");
  ASSERT_TRUE(graph_.set_input(*b, 0, c->output()).ok());
  Status status = graph_.topological_order().status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("cycle: "), std::string::npos);
  EXPECT_NE(status.message().find("b -> "), std::string::npos);
  EXPECT_EQ(status.message().find(d->name()), std::string::npos);
}

TEST_F(GraphTest, LoopsAreNoCycles) {
  Node* enter = add(graph_, "Enter", {floats({2})}, {{"frame_name", "f"}});
  NodeSpec spec{.op = "Merge", .name = "merge", .inputs = {enter->output(), Output()}, .attrs = {{"N", 2}}};
  Node* merge = graph_.add_exact(spec).value_or_throw();
  EXPECT_FALSE(merge->output_shape(0).has_rank());
  Node* next = add(graph_, "NextIteration", {add(graph_, "Neg", {merge->output()})->output()});
  ASSERT_TRUE(graph_.set_input(*merge, 1, next->output()).ok());
  EXPECT_EQ(graph_.topological_order().value_or_throw().size(), 5u);
  EXPECT_TRUE(is_back_edge(*next, *merge));
  EXPECT_FALSE(is_back_edge(*enter, *merge));
}

TEST_F(GraphTest, SetInputChecksTypes) {
  Output a = floats({}, "a");
  Output i = placeholder(graph_, DType::kInt32, {}, "i");
  Node* neg = add(graph_, "Neg", {a}, {}, "neg");
  EXPECT_EQ(graph_.set_input(*neg, 0, i).code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_.set_input(*neg, 1, a).code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_.set_input(*neg, 0, {a.node, 3}).code(), Code::kInvalidArgument);
  EXPECT_EQ(neg->input(0), a);
}

TEST_F(GraphTest, ReplacesUsesAndRebuilds) {
  Output a = floats({2}, "a");
  Output b = floats({2}, "b");
  Node* sum = add(graph_, "Add", {a, a}, {}, "sum");
  Node* user = add(graph_, "Neg", {sum->output()}, {}, "user");
  graph_.replace_uses(a, b);
  EXPECT_EQ(sum->input(0), b);
  EXPECT_EQ(sum->input(1), b);
  const int id = sum->id();
  ASSERT_TRUE(graph_.rebuild(*sum, {.op = "Neg", .inputs = {a}}).ok());
  EXPECT_EQ(sum->op_name(), "Neg");
  EXPECT_EQ(sum->name(), "sum");
  EXPECT_EQ(sum->id(), id);
  EXPECT_EQ(user->input(0).node, sum);
  EXPECT_EQ(graph_.find("sum"), sum);
  EXPECT_EQ(graph_.rebuild(*sum, {.op = "Cast", .inputs = {a}, .attrs = {{"DstT", DType::kInt32}}}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(sum->op_name(), "Neg");
  graph_.remove(*user);
  EXPECT_EQ(graph_.find("user"), nullptr);
  EXPECT_EQ(graph_.nodes().size(), 3u);
}

TEST_F(GraphTest, CopiesNodes) {
  Output a = floats({2}, "a");
  Node* neg = add(graph_, "Neg", {a}, {{"_note", "kept"}}, "neg");
  Graph other(test_ops());
  Node* copied = other.copy_node(*neg, "copy").value_or_throw();
  EXPECT_EQ(&copied->graph(), &other);
  EXPECT_EQ(copied->name(), "copy");
  EXPECT_FALSE(copied->input(0));
  EXPECT_EQ(copied->output_shape(0), (PartialShape{2}));
  EXPECT_EQ(copied->attr<std::string>("_note"), "kept");
  EXPECT_EQ(other.copy_node(*neg, "copy").status().code(), Code::kAlreadyExists);
}

}  // namespace tutti::graph_test

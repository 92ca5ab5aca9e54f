#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::open_gates_test {

// The gradients of x * y, gated as TensorFlow's programs gate them, of values in a loop.
class OpenGatesTest : public ::testing::Test {
 protected:
  Output enter(const std::string& name) {
    return op1("Enter", {placeholder(graph_, DType::kFloat, {2}, name)}, {{"frame_name", "loop"}});
  }
  Output waiting(Output value, Node* gate) {
    Output exit = op1("Identity", {value});
    graph_.add_control_input(*exit.node, *gate);
    return exit;
  }
  Node* gate_of(std::initializer_list<Output> values) {
    Node* gate = add_op(graph_, "NoOp", {});
    for (Output value : values) graph_.add_control_input(*gate, *value.node);
    return gate;
  }
  FunctionBody extracted(const std::vector<Output>& fetches, const std::vector<Node*>& targets = {}) {
    Signature signature{.feeds = {"x", "y", "z"}};
    for (Output fetch : fetches) signature.fetches.push_back(fetch.name());
    for (const Node* target : targets) signature.targets.push_back(target->name());
    return extract_subgraph(graph_, signature).value_or_throw();
  }
  FunctionBody opened(const std::vector<Output>& fetches, const std::vector<Node*>& targets = {}) {
    FunctionBody body = extracted(fetches, targets);
    throw_if_error(open_gates(body));
    EXPECT_TRUE(body.graph->topological_order().ok());
    return body;
  }
  static std::set<std::string> waits(const FunctionBody& body, Output of) {
    std::set<std::string> names;
    for (const Node* before : body.graph->find(of.node->name())->control_inputs()) names.insert(before->name());
    return names;
  }
  static bool has(const FunctionBody& body, const Node* node) { return body.graph->find(node->name()) != nullptr; }

  Graph graph_{builtin_ops()};
  Output x_ = neg(enter("x"));
  Output y_ = neg(enter("y"));
  Output z_ = neg(enter("z"));
  Output dx_ = y_ * z_;
  Output dy_ = x_ * z_;
};

TEST_F(OpenGatesTest, ValuesWaitForWhatTheOthersAreMadeOf) {
  Node* gate = gate_of({dx_, dy_});
  Output gated_x = waiting(dx_, gate), gated_y = waiting(dy_, gate);
  Output after_x = neg(gated_x), after_y = neg(gated_y);
  const FunctionBody body = opened({after_x, after_y});
  EXPECT_FALSE(has(body, gate));
  for (Output exit : {gated_x, gated_y}) EXPECT_FALSE(has(body, exit.node));
  EXPECT_EQ(body.graph->find(after_x.node->name())->input(0).node->name(), dx_.node->name());
  EXPECT_EQ(waits(body, dx_), std::set<std::string>{x_.node->name()});
  EXPECT_EQ(waits(body, dy_), std::set<std::string>{y_.node->name()});
}

// What has effects, or a value that may be dead where its node is not, is waited for itself.
TEST_F(OpenGatesTest, WhatIsNotPureIsWaitedForItself) {
  Output shape = op1("Enter", {constant(graph_, Tensor::vector<std::int32_t>({2}))}, {{"frame_name", "loop"}});
  Output random = op1("RandomUniform", {shape}, {{"dtype", DType::kFloat}});
  Output entered = enter("y") * z_;
  Node* gate = gate_of({dx_, random, entered});
  Output gated = waiting(dx_, gate);
  const FunctionBody body = opened({neg(gated)});
  EXPECT_FALSE(has(body, gated.node));
  EXPECT_EQ(waits(body, dx_), (std::set{random.node->name(), entered.node->name()}));
}

TEST_F(OpenGatesTest, WhatWouldWaitForItselfStaysGated) {
  // dy waits for dx by another way: were dx to wait for what dy is made of, it would wait for itself.
  Output late = neg(x_);
  graph_.add_control_input(*late.node, *gate_of({dx_}));
  Output dy = late * z_;
  Output gated = waiting(dx_, gate_of({dx_, dy}));
  const FunctionBody body = opened({neg(gated)});
  EXPECT_TRUE(has(body, gated.node));
  EXPECT_TRUE(waits(body, dx_).empty());
}

TEST_F(OpenGatesTest, OfTwoGatesOneMayWaitForTheOther) {
  Node* inner = gate_of({dx_});
  Output late = neg(x_);
  graph_.add_control_input(*late.node, *inner);
  Output gated = waiting(dx_, gate_of({late}));
  graph_.add_control_input(*gated.node, *inner);
  EXPECT_TRUE(has(opened({neg(gated)}), gated.node));
}

// Kernels read a reference variable when they run: what reads it must not move to after an update.
TEST_F(OpenGatesTest, ReadsOfReferenceVariablesStayWhereTheyAre) {
  Output variable = add_op(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}})->output();
  Output read = op1("Identity", {op1("RefEnter", {variable}, {{"frame_name", "loop"}})});
  Output product = read * z_;
  Node* gate = gate_of({dx_, product});
  Output gated_x = waiting(dx_, gate), gated_product = waiting(product, gate);
  const FunctionBody body = opened({neg(gated_x), neg(gated_product)});
  EXPECT_TRUE(has(body, gated_product.node));
  EXPECT_FALSE(has(body, gated_x.node));
  EXPECT_EQ(waits(body, dx_), std::set<std::string>{product.node->name()});
}

// It runs although what it waits for is dead.
TEST_F(OpenGatesTest, AControlTriggerIsWaitedForItself) {
  Node* trigger = add_op(graph_, "ControlTrigger", {});
  graph_.add_control_input(*trigger, *x_.node);
  Node* gate = gate_of({dx_});
  graph_.add_control_input(*gate, *trigger);
  Output gated = waiting(dx_, gate);
  EXPECT_EQ(waits(opened({neg(gated)}), dx_), std::set<std::string>{trigger->name()});
}

TEST_F(OpenGatesTest, LargeGatesStay) {
  Node* gate = gate_of({dx_});
  for (int i = 0; i < 8; ++i) graph_.add_control_input(*gate, *neg(x_).node);
  Output gated = waiting(dx_, gate);
  EXPECT_TRUE(has(opened({neg(gated)}), gated.node));
}

TEST_F(OpenGatesTest, AValueThatOthersReadStaysGated) {
  Node* gate = gate_of({dx_, dy_});
  Output gated = waiting(dx_, gate);
  EXPECT_TRUE(has(opened({neg(gated), neg(dx_)}), gated.node));
  EXPECT_TRUE(has(opened({neg(gated)}, {dx_.node}), gated.node));
  EXPECT_TRUE(has(opened({neg(gated)}, {gated.node}), gated.node));
}

TEST_F(OpenGatesTest, WhoWaitsForTheExitWaitsForTheValue) {
  Output gated = waiting(dx_, gate_of({dx_, dy_}));
  Node* follower = gate_of({gated});
  const FunctionBody body = opened({neg(gated)}, {follower});
  ASSERT_TRUE(has(body, follower));
  EXPECT_EQ(waits(body, Output(follower, 0)), std::set<std::string>{dx_.node->name()});
}

TEST_F(OpenGatesTest, GatesOutsideOfLoopsStay) {
  Output a = placeholder(graph_, DType::kFloat, {2}, "a"), b = neg(a), c = op1("Abs", {a});
  Output gated = waiting(b, gate_of({b, c}));
  Signature signature{.feeds = {"a", "x"}, .fetches = {neg(gated).name(), neg(x_).name()}};
  FunctionBody body = extract_subgraph(graph_, signature).value_or_throw();
  throw_if_error(open_gates(body));
  EXPECT_TRUE(has(body, gated.node));
}

TEST_F(OpenGatesTest, IsAnOption) {
  class Nothing : public ConstantEvaluator {
    Result<std::vector<Tensor>> evaluate(const Node&, const std::vector<Tensor>&) override {
      return unimplemented("nothing is folded");
    }
  } evaluator;
  Node* gate = gate_of({dx_, dy_});
  Output gated = waiting(dx_, gate);
  for (const bool on : {true, false}) {
    FunctionBody body = extracted({neg(gated)});
    throw_if_error(run_passes(body, {.open_gates = on, .fuse = false}, evaluator));
    EXPECT_EQ(has(body, gated.node), !on);
  }
}

}  // namespace tutti::open_gates_test

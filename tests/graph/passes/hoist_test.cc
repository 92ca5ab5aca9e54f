#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::hoist_test {

class HoistTest : public ::testing::Test {
 protected:
  static Output enter(Output value, bool constant = true) {
    return op1("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}, {"parallel_iterations", 3}});
  }
  static Output product(Output a, Output b, bool transpose_b = true) {
    return op1("MatMul", {a, b}, {{"transpose_b", transpose_b}});
  }
  // The body that computes these, with what stays the same taken out of its loops.
  FunctionBody hoisted(const std::vector<Output>& fetches) {
    Signature signature{.feeds = {"x", "w"}};
    for (Output fetch : fetches) signature.fetches.push_back(fetch.name());
    FunctionBody body = extract_subgraph(graph_, signature).value_or_throw();
    throw_if_error(hoist(body));
    return body;
  }
  static std::vector<Node*> of_op(const FunctionBody& body, const std::string& op) {
    std::vector<Node*> nodes = body.graph->nodes();
    std::erase_if(nodes, [&](const Node* node) { return node->op_name() != op; });
    return nodes;
  }

  Graph graph_{builtin_ops()};
  Output x_ = placeholder(graph_, DType::kFloat, {-1, 4}, "x");
  Output w_ = placeholder(graph_, DType::kFloat, {3, 4}, "w");
};

TEST_F(HoistTest, WhatEntersIsTransposedOnceBefore) {
  Output x = enter(x_, false);
  Output w = enter(w_);
  const FunctionBody body = hoisted({op1("Exit", {product(x, w)}), op1("Exit", {product(x + x, w)})});
  ASSERT_EQ(of_op(body, "Transpose").size(), 1u);
  const Node* turned = of_op(body, "Transpose")[0];
  for (const Node* node : of_op(body, "MatMul")) {
    EXPECT_FALSE(node->attr<bool>("transpose_b"));
    const Node& in = *node->input(1).node;
    EXPECT_EQ(in.input(0).node, turned);
    EXPECT_TRUE(in.attr<bool>("is_constant"));
    EXPECT_EQ(in.attr<std::string>("frame_name"), "loop");
    EXPECT_EQ(in.attr<std::int64_t>("parallel_iterations"), 3);
  }
  // In the frame of what is transposed, whichever that is.
  const Node& order = *turned->input(1).node;
  ASSERT_EQ(order.control_inputs().size(), 1u);
  EXPECT_EQ(order.control_inputs()[0], turned->input(0).node);
}

TEST_F(HoistTest, TheRestStays) {
  Output unknown = placeholder(graph_, DType::kFloat, PartialShape::unknown(), "unknown");
  Output large = placeholder(graph_, DType::kFloat, {5'000'000, 4}, "large");
  Output x = enter(x_, false);
  const std::vector<Output> in_loop{
      product(x, enter(w_, false)),  // another value in each iteration
      product(x, enter(unknown)),    // may be no matrix: the product says so
      product(x, enter(large)),      // would lie in memory twice
      op1("MatMul", {enter(w_, false), enter(x_)}, {{"transpose_a", true}}),
  };
  std::vector<Output> fetches{product(x_, w_)};
  for (Output value : in_loop) fetches.push_back(op1("Exit", {value}));
  EXPECT_TRUE(of_op(hoisted(fetches), "Transpose").empty());
}

TEST_F(HoistTest, OnlyWhereItIsAskedFor) {
  struct NoEvaluator : ConstantEvaluator {
    Result<std::vector<Tensor>> evaluate(const Node&, const std::vector<Tensor>&) override {
      return unimplemented("nothing is folded here");
    }
  } evaluator;
  const Output fetch = op1("Exit", {product(enter(x_, false), enter(w_))});
  for (const bool hoist : {false, true}) {
    FunctionBody body = extract_subgraph(graph_, {.feeds = {"x", "w"}, .fetches = {fetch.name()}}).value_or_throw();
    throw_if_error(run_passes(body, {.fold_constants = false, .hoist = hoist}, evaluator));
    EXPECT_EQ(of_op(body, "Transpose").size(), hoist ? 1u : 0u);
  }
}

// A loop may assign to it between two products.
TEST_F(HoistTest, AReferenceVariableIsTransposedWhereItIsRead) {
  Output variable =
      add_op(graph_, "VariableV2", {}, {{"shape", PartialShape{3, 4}}, {"dtype", DType::kFloat}}, "v")->output();
  const FunctionBody body = hoisted({op1("Exit", {product(enter(x_, false), enter(op1("Identity", {variable})))})});
  EXPECT_TRUE(of_op(body, "Transpose").empty());
}

}  // namespace tutti::hoist_test

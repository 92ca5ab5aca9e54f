#include "tutti/graph/passes/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"
#include "tutti/graph/subgraph.h"

namespace tutti::passes_test {

using testing::add;
using testing::constant;
using testing::placeholder;
using testing::test_ops;
using testing::TestEvaluator;

// Twice the same constant expression, in a function and outside, and something that nothing needs.
class RunPassesTest : public ::testing::Test {
 protected:
  RunPassesTest() {
    throw_if_error(graph_.library().add_serialized(testing::function_def_bytes(
        "signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
        "node_def { name: 'n' op: 'Neg' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }"
        "ret { key: 'r' value: 'n:y:0' }")));
    Output x = placeholder(graph_, DType::kFloat, {1}, "x");
    Node* call = add(graph_, "f", {constant(graph_, Tensor::vector<float>({2}))}, {}, "call");
    Node* neg = add(graph_, "Neg", {constant(graph_, Tensor::vector<float>({2}))}, {}, "neg");
    add(graph_, "Mul", {call->output(), x}, {}, "a");
    add(graph_, "Mul", {neg->output(), x}, {}, "b");
  }
  FunctionBody run(const PassOptions& options) {
    FunctionBody body = extract_subgraph(graph_, {.feeds = {"x"}, .fetches = {"a", "b"}}).value_or_throw();
    throw_if_error(run_passes(body, options, evaluator_));
    return body;
  }

  Graph graph_{test_ops()};
  TestEvaluator evaluator_;
};

TEST_F(RunPassesTest, AllTogether) {
  FunctionBody body = run({.fuse = false});
  EXPECT_EQ(body.graph->num_nodes(), 1 + 1 + 1 + 2);  // argument, constant, product, results
  EXPECT_EQ(body.retvals[0]->input(0), body.retvals[1]->input(0));
}

TEST_F(RunPassesTest, EachCanBeOff) {
  FunctionBody none =
      run({.fold_constants = false, .merge_common_subexpressions = false, .fuse = false, .inline_functions = false});
  EXPECT_EQ(none.graph->num_nodes(), 9);
  EXPECT_EQ(evaluator_.calls, 0);
  EXPECT_NE(run({.fuse = false, .inline_functions = false}).graph->find("call"), nullptr);
  EXPECT_EQ(run({.merge_common_subexpressions = false, .fuse = false}).graph->num_nodes(), 7);
}

TEST_F(RunPassesTest, WhatNobodyReadsIsDroppedUnlessOff) {
  Node* unread = add(graph_, "Neg", {graph_.find("x")->output()}, {}, "unread");
  const auto scope = graph_.control_dependencies({unread});
  add(graph_, "Mul", {graph_.find("x")->output(), graph_.find("x")->output()}, {}, "c");
  for (const bool drops : {true, false}) {
    FunctionBody body = extract_subgraph(graph_, {.feeds = {"x"}, .fetches = {"c"}}).value_or_throw();
    throw_if_error(run_passes(body, {.drop_unread = drops, .fuse = false}, evaluator_));
    EXPECT_EQ(body.graph->find("unread") == nullptr, drops);
  }
}

}  // namespace tutti::passes_test

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti::fold_constants_test {

using testing::add;
using testing::constant;
using testing::names;
using testing::placeholder;
using testing::test_ops;
using testing::TestEvaluator;

class FoldConstantsTest : public ::testing::Test {
 protected:
  FunctionBody extract(const Signature& signature) { return extract_subgraph(graph_, signature).value_or_throw(); }
  void fold(FunctionBody& body, std::int64_t max_bytes = 1 << 20) {
    throw_if_error(fold_constants(body, evaluator_, max_bytes));
  }
  static const Tensor* value(const FunctionBody& body, const std::string& name) {
    const Node* node = body.graph->find(name);
    return node != nullptr && node->op_name() == "Const" ? &node->attr<Tensor>("value") : nullptr;
  }
  Output floats(std::initializer_list<float> values, const std::string& name = "") {
    return constant(graph_, Tensor::vector<float>(values), name);
  }

  Graph graph_{test_ops()};
  TestEvaluator evaluator_;
};

TEST_F(FoldConstantsTest, FoldsWhatDependsOnConstants) {
  Output a = floats({1, 2});
  Node* sum = add(graph_, "Add", {a, a}, {}, "sum");
  Node* neg = add(graph_, "Neg", {sum->output()}, {}, "neg");
  Output x = placeholder(graph_, DType::kFloat, {2}, "x");
  add(graph_, "Mul", {neg->output(), x}, {}, "out");
  FunctionBody body = extract({.feeds = {"x"}, .fetches = {"out"}});
  fold(body);
  ASSERT_NE(value(body, "neg"), nullptr);
  EXPECT_TRUE(bitwise_equal(*value(body, "neg"), Tensor::vector<float>({-2, -4})));
  EXPECT_EQ(body.graph->find("sum"), nullptr);
  EXPECT_EQ(body.graph->find("out")->op_name(), "Mul");
  EXPECT_EQ(body.graph->num_nodes(), 4);
  EXPECT_EQ(body.graph->find("neg")->output_shape(0), (PartialShape{2}));
}

TEST_F(FoldConstantsTest, LeavesStateVariablesAndFailuresAlone) {
  Output shape = constant(graph_, Tensor::vector<std::int32_t>({2}));
  add(graph_, "Random", {shape}, {}, "random");
  Node* v = add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  add(graph_, "Identity", {v->output()}, {}, "read");
  add(graph_, "Assign", {v->output(), floats({1, 2})}, {}, "assign");
  Node* handle = add(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}}, "handle");
  add(graph_, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}}, "load");
  add(graph_, "Sub", {floats({1}), floats({1})}, {}, "unknown");  // the evaluator cannot
  FunctionBody body = extract({.fetches = {"random", "read", "assign", "load", "unknown"}});
  const int before = body.graph->num_nodes();
  fold(body);
  EXPECT_EQ(body.graph->num_nodes(), before);
  EXPECT_EQ(body.graph->find("unknown")->op_name(), "Sub");
  EXPECT_EQ(evaluator_.calls, 1);
}

TEST_F(FoldConstantsTest, KeepsControlInputs) {
  Node* effect = add(graph_, "NoOp", {}, {}, "effect");
  Node* effect2 = add(graph_, "NoOp", {}, {}, "effect2");
  Output a = floats({1}, "a");
  graph_.add_control_input(*a.node, *effect);
  Node* neg = add(graph_, "Neg", {a}, {}, "neg");
  graph_.add_control_input(*neg, *effect2);
  FunctionBody body = extract({.fetches = {"neg"}});
  fold(body);
  ASSERT_NE(value(body, "neg"), nullptr);
  const auto controls = body.graph->find("neg")->control_inputs();
  EXPECT_EQ(names({controls.begin(), controls.end()}), (std::vector<std::string>{"effect2", "effect"}));
}

TEST_F(FoldConstantsTest, SeveralOutputs) {
  Node* split = add(graph_, "Split", {floats({1, 2})}, {{"num_split", 2}}, "split");
  add(graph_, "Neg", {split->output(1)}, {}, "neg");
  add(graph_, "Random", {constant(graph_, Tensor::vector<std::int32_t>({1}))}, {}, "r");
  add(graph_, "Mul", {split->output(0), *graph_.find_output("r")}, {}, "out");
  FunctionBody body = extract({.fetches = {"neg", "out", "split:1"}});
  fold(body);
  EXPECT_TRUE(bitwise_equal(*value(body, "neg"), Tensor::vector<float>({-2})));
  EXPECT_EQ(body.graph->find("split"), nullptr);
  EXPECT_TRUE(bitwise_equal(body.graph->find("out")->input(0).node->attr<Tensor>("value"), Tensor::vector<float>({1})));
  EXPECT_TRUE(bitwise_equal(body.retvals[2]->input(0).node->attr<Tensor>("value"), Tensor::vector<float>({2})));
}

TEST_F(FoldConstantsTest, ShapesThatAreKnown) {
  Output x = placeholder(graph_, DType::kFloat, {2, 3}, "x");
  Output y = placeholder(graph_, DType::kFloat, {-1, 3}, "y");
  add(graph_, "Shape", {x}, {{"out_type", DType::kInt64}}, "shape");
  add(graph_, "Size", {x}, {}, "size");
  add(graph_, "Rank", {y}, {}, "rank");
  add(graph_, "Shape", {y}, {}, "open");
  FunctionBody body = extract({.feeds = {"x", "y"}, .fetches = {"shape", "size", "rank", "open"}});
  fold(body);
  EXPECT_TRUE(bitwise_equal(*value(body, "shape"), Tensor::vector<std::int64_t>({2, 3})));
  EXPECT_TRUE(bitwise_equal(*value(body, "size"), Tensor::scalar(6)));
  EXPECT_TRUE(bitwise_equal(*value(body, "rank"), Tensor::scalar(2)));
  EXPECT_EQ(body.graph->find("open")->op_name(), "Shape");
}

TEST_F(FoldConstantsTest, ShapesOfBranchesNotTakenStayDead) {
  Output pred = placeholder(graph_, DType::kBool, PartialShape::scalar(), "pred");
  Output x = placeholder(graph_, DType::kFloat, {2}, "x");
  Node* branch = add(graph_, "Switch", {x, pred}, {}, "switch");
  Node* reshaped =
      add(graph_, "Reshape", {branch->output(1), constant(graph_, Tensor::vector<std::int32_t>({2}))}, {}, "in");
  add(graph_, "Shape", {reshaped->output()}, {}, "shape");
  FunctionBody body = extract({.feeds = {"x", "pred"}, .fetches = {"shape"}});
  fold(body);
  ASSERT_NE(value(body, "shape"), nullptr);
  ASSERT_EQ(body.graph->find("shape")->control_inputs().size(), 1u);
  EXPECT_EQ(body.graph->find("shape")->control_inputs()[0]->name(), "in");
}

std::vector<std::string> waits_for(const FunctionBody& body, const std::string& name) {
  const auto controls = body.graph->find(name)->control_inputs();
  return names({controls.begin(), controls.end()});
}

TEST_F(FoldConstantsTest, WhatAShapeWasTakenOfKeepsItsEffects) {
  Node* v = add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  Node* assign = add(graph_, "Assign", {v->output(), floats({1, 2})}, {}, "assign");
  Node* seen = add(graph_, "Identity", {assign->output()}, {}, "seen");
  Node* far = add(graph_, "Neg", {seen->output()}, {}, "far");
  add(graph_, "Shape", {far->output()}, {}, "shape");
  Node* handle = add(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}}, "handle");
  Node* load = add(graph_, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}}, "load");
  graph_.add_control_input(*load, *assign);
  Node* sum = add(graph_, "Add", {load->output(), far->output()}, {}, "sum");
  add(graph_, "Size", {sum->output()}, {}, "size");
  FunctionBody body = extract({.fetches = {"shape", "size"}});
  fold(body);
  ASSERT_NE(value(body, "shape"), nullptr);
  ASSERT_NE(value(body, "size"), nullptr);
  EXPECT_EQ(waits_for(body, "shape"), (std::vector<std::string>{"seen"}));
  EXPECT_EQ(waits_for(body, "size"), (std::vector<std::string>{"load", "seen"}));
  EXPECT_EQ(waits_for(body, "load"), (std::vector<std::string>{"assign"}));
  EXPECT_EQ(body.graph->find("far"), nullptr) << "nobody wants the value";
}

TEST_F(FoldConstantsTest, AShapeAfterManyEffectsWaitsForTheValueItself) {
  Output one = constant(graph_, Tensor::vector<std::int32_t>({1}));
  Output sum = floats({0});
  for (int i = 0; i < 100; ++i) sum = add(graph_, "Add", {sum, add(graph_, "Random", {one})->output()})->output();
  add(graph_, "Shape", {sum}, {}, "shape");
  add(graph_, "Shape", {floats({1, 2})}, {}, "free");
  FunctionBody body = extract({.fetches = {"shape", "free"}});
  const int randoms_and_sums = 200;
  fold(body);
  ASSERT_NE(value(body, "shape"), nullptr);
  EXPECT_LE(waits_for(body, "shape").size(), 16u);
  EXPECT_GE(body.graph->num_nodes(), randoms_and_sums - 16) << "every draw still happens";
  EXPECT_TRUE(waits_for(body, "free").empty());
}

TEST_F(FoldConstantsTest, LargeValuesStay) {
  Output a = constant(graph_, Tensor(DType::kFloat, Shape{100}));
  add(graph_, "Neg", {a}, {}, "neg");
  FunctionBody body = extract({.fetches = {"neg"}});
  fold(body, 399);
  EXPECT_EQ(value(body, "neg"), nullptr);
  EXPECT_EQ(evaluator_.calls, 0);
  fold(body, 400);
  EXPECT_NE(value(body, "neg"), nullptr);
}

TEST_F(FoldConstantsTest, LongChain) {
  Output x = floats({1});
  for (int i = 0; i < 100'000; ++i) x = add(graph_, "Neg", {x})->output();
  FunctionBody body = extract({.fetches = {x.name()}});
  fold(body);
  EXPECT_EQ(body.graph->num_nodes(), 2);
}

}  // namespace tutti::fold_constants_test

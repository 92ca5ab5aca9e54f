#include "tutti/ops/state.h"

#include <gtest/gtest.h>

#include "tests/support/graph_eval.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/random.h"

namespace tutti::state_test {

TEST(State, VariablesAreNamedAsTensorFlowDoes) {
  Graph graph(builtin_ops());
  Var w = variable(graph, Tensor::vector<float>({1, 2}), "w");
  EXPECT_EQ(w.name(), "w");
  EXPECT_EQ(w.handle().node->attr<std::string>("shared_name"), "w");
  EXPECT_EQ(w.initializer()->name(), "w/Assign");
  EXPECT_EQ(w.read().node->name(), "w/Read/ReadVariableOp");
  EXPECT_EQ(w.shape(), (PartialShape{2}));
  EXPECT_EQ(w.dtype(), DType::kFloat);
  ScopeGuard scope = graph.name_scope("layer");
  Var inner = variable(graph, zeros(graph, DType::kFloat, {3}), "w", /*trainable=*/false);
  EXPECT_EQ(inner.name(), "layer/w");
  EXPECT_EQ(inner.initializer()->name(), "layer/w/Assign");
  Var again = variable(graph, Tensor::scalar(1.0f), "w");
  EXPECT_EQ(again.name(), "layer/w_1");
  EXPECT_EQ(again.read().node->name(), "layer/w_1/Read/ReadVariableOp");
  EXPECT_FALSE(inner.trainable());
  EXPECT_TRUE(again.trainable());
}

TEST(State, CollectionsKnowTheVariables) {
  Graph graph(builtin_ops());
  EXPECT_TRUE(global_variables(graph).empty());
  variable(graph, Tensor::scalar(1.0f), "a");
  variable(graph, Tensor::scalar(2.0f), "b", /*trainable=*/false);
  ASSERT_EQ(global_variables(graph).size(), 2u);
  EXPECT_EQ(global_variables(graph)[1].name(), "b");
  ASSERT_EQ(trainable_variables(graph).size(), 1u);
  EXPECT_EQ(trainable_variables(graph)[0].name(), "a");
}

TEST(State, InitialiseReadUpdate) {
  Graph graph(builtin_ops());
  testing::GraphEvaluator evaluator;
  Var w = variable(graph, Tensor::scalar(1.0f), "w");
  Node* add = w.assign_add(constant(graph, 2.0, DType::kFloat));
  Node* subtract = w.assign_sub(constant(graph, 0.5, DType::kFloat));
  Node* set = w.assign(constant(graph, 9, DType::kFloat));
  EXPECT_FALSE(evaluator.try_run(graph, {}, {w}).ok());
  evaluator.run_target(global_variables_initializer(graph));
  EXPECT_EQ(evaluator.run(w).scalar<float>(), 1);
  evaluator.run_target(add);
  evaluator.run_target(subtract);
  EXPECT_EQ(evaluator.run(w.read_again()).scalar<float>(), 2.5);
  evaluator.run_target(set);
  EXPECT_EQ(evaluator.run(w).scalar<float>(), 9);
}

TEST(State, GradientsReachTheHandle) {
  Graph graph(builtin_ops());
  testing::GraphEvaluator evaluator;
  Var w = variable(graph, Tensor::of<float>({3, 1}, {1, 2, 3}), "w");
  evaluator.run_target(global_variables_initializer(graph));
  Output rows = op1("ResourceGather", {w.handle(), constant(graph, Tensor::vector<std::int32_t>({2, 2}))},
                    {{"dtype", DType::kFloat}});
  const Gradient gradient = gradients({rows}, {w.handle()})[0];
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_TRUE(bitwise_equal(evaluator.run(gradient.slices().indices), Tensor::vector<std::int32_t>({2, 2})));
  EXPECT_TRUE(bitwise_equal(evaluator.run(gradient.dense()), Tensor::of<float>({3, 1}, {0, 0, 2})));
}

TEST(State, MistakesAreErrors) {
  Graph graph(builtin_ops());
  EXPECT_THROW(variable(graph, Output(), "w"), Error);
  EXPECT_THROW(variable(graph, Tensor(), "w"), Error);
  Output x = constant(graph, 1, DType::kInt32);
  EXPECT_THROW(variable_of(*x.node), Error);
  Var w = variable(graph, Tensor::scalar(1.0f), "w");
  EXPECT_THROW(w.assign(x), Error);
  EXPECT_THROW(w.assign_add(zeros(graph, DType::kFloat, {2})), Error);
}

TEST(ArrayBuilders, Values) {
  Graph graph(builtin_ops());
  testing::GraphEvaluator run;
  const auto is = [&](Output value, const Tensor& expected) {
    const Tensor actual = run.run(value);
    EXPECT_TRUE(bitwise_equal(actual, expected)) << value.name() << ": " << actual.to_string();
  };
  Output x = constant(graph, Tensor::of<float>({2, 2}, {1, 2, 3, 4}), "x");
  is(constant(graph, 3, DType::kDouble), Tensor::scalar(3.0));
  is(constant(graph, true, DType::kBool), Tensor::scalar(true));
  is(constant(graph, std::int64_t{1} << 40, DType::kInt64), Tensor::scalar(std::int64_t{1} << 40));
  is(zeros(graph, DType::kInt32, {2}), Tensor::vector<std::int32_t>({0, 0}));
  is(ones(graph, DType::kFloat, {2}), Tensor::vector<float>({1, 1}));
  EXPECT_EQ(run.run(zeros(graph, DType::kFloat, {2000})).num_elements(), 2000);
  is(transpose(x), Tensor::of<float>({2, 2}, {1, 3, 2, 4}));
  is(transpose(x, Ints{0, 1}), Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  is(concat({x}, 0), Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  is(split(x, 2, 1)[1], Tensor::of<float>({2, 1}, {2, 4}));
  is(split(x, std::vector<std::int64_t>{1, 1})[0], Tensor::of<float>({1, 2}, {1, 2}));
  is(reshape(x, {0 + 4}), Tensor::vector<float>({1, 2, 3, 4}));
  is(slice(x, {0, 1}, {1, 1}), Tensor::of<float>({1, 1}, {2}));
  is(reverse(x, {0}), Tensor::of<float>({2, 2}, {3, 4, 1, 2}));
  is(range(graph, 0, 3), Tensor::vector<std::int32_t>({0, 1, 2}));
  is(scatter_nd(constant(graph, Tensor::of<std::int64_t>({1, 1}, {1})), constant(graph, Tensor::vector<float>({5})),
                {3}),
     Tensor::vector<float>({0, 5, 0}));
  is(check_numerics(squeeze(expand_dims(x, 1)), "x"), Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const Tensor drawn = run.run(random_uniform(graph, {100}, DType::kFloat, 3, 4, {.seed = 1}));
  for (const float value : drawn.flat<float>()) EXPECT_TRUE(value >= 3 && value < 4);
  EXPECT_THROW(constant(graph, Tensor()), Error);
  EXPECT_THROW(constant(graph, 1, DType::kString), Error);
  EXPECT_THROW(stack({}), Error);
  EXPECT_THROW(reshape(Output(), {1}), Error);
  EXPECT_THROW(unstack(placeholder(graph, DType::kFloat)), Error);
}

TEST(ArrayBuilders, GroupRunsAfterItsNodes) {
  Graph graph(builtin_ops());
  Node* a = no_op(graph, "a");
  Node* b = no_op(graph, "b");
  Node* both = group(graph, {a, b}, "both");
  EXPECT_EQ(both->control_inputs().size(), 2u);
  EXPECT_EQ(both->op_name(), "NoOp");
}

}  // namespace tutti::state_test

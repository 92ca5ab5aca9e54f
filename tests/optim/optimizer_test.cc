#include "tutti/optim/optimizer.h"

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/sgd.h"

namespace tutti {
namespace {

using testing::Doubles;

class OptimizerTest : public testing::OptimizerFixture {
 protected:
  template <typename F>
  std::string error_of(F f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(OptimizerTest, MinimizeTakesTrainableVariables) {
  Var w = make_variable(Tensor::vector<double>({3, -4}));
  Var other = variable(graph_, Tensor::scalar(7.0), "other", /*trainable=*/false);
  Output loss = op1("Mul", {op1("Mul", {w.read(), w.read()}), other.read()});
  SGD optimizer(0.01);
  Node* train = optimizer.minimize(loss);
  initialize();
  evaluator_.run_target(train);
  expect_near(value_of(w), {3 * (1 - 0.14), -4 * (1 - 0.14)});
  EXPECT_EQ(value_of(other), Doubles{7});
}

TEST_F(OptimizerTest, GlobalStepCountsSteps) {
  Var w = make_variable(Tensor::scalar(1.0));
  Var step = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
  SGD optimizer(0.5);
  Node* train = optimizer.minimize(op1("Mul", {w.read(), w.read()}), {}, step);
  EXPECT_EQ(train->op_name(), "AssignAddVariableOp");
  // It waits for the update.
  ASSERT_EQ(train->control_inputs().size(), 1u);
  EXPECT_EQ(train->control_inputs()[0]->op_name(), "ResourceApplyGradientDescent");
  initialize();
  for (int i = 0; i < 3; ++i) evaluator_.run_target(train);
  EXPECT_EQ(value_of(step), Doubles{3});
}

TEST_F(OptimizerTest, VariableTheLossDoesNotReachIsLeftAlone) {
  Var w = make_variable(Tensor::scalar(1.0));
  Var apart = make_variable(Tensor::scalar(2.0), "apart");
  SGD optimizer(0.5);
  Node* train = optimizer.minimize(op1("Mul", {w.read(), w.read()}));
  EXPECT_EQ(train->control_inputs().size(), 1u);
  initialize();
  evaluator_.run_target(train);
  EXPECT_EQ(value_of(apart), Doubles{2});
}

TEST_F(OptimizerTest, Errors) {
  SGD optimizer(0.5);
  Output x = constant(graph_, Tensor::scalar(1.0));
  EXPECT_NE(error_of([&] { optimizer.minimize(x); }).find("the graph has no trainable variable"), std::string::npos);
  EXPECT_NE(error_of([&] { optimizer.minimize(Output()); }).find("the loss is empty"), std::string::npos);
  Var w = make_variable(Tensor::scalar(1.0));
  EXPECT_NE(error_of([&] { optimizer.minimize(x); }).find("no variable has a gradient, of 1: w"), std::string::npos);
  EXPECT_NE(error_of([&] { optimizer.apply_gradients({}); }).find("no variable has a gradient"), std::string::npos);
  Var count = make_variable(Tensor::scalar(std::int64_t{1}), "count");
  EXPECT_NE(error_of([&] { optimizer.minimize(w.read(), {count}); }).find("\"count\" is int64"), std::string::npos);
}

TEST_F(OptimizerTest, LearningRateFromTheGraph) {
  Var w = make_variable(Tensor::scalar(1.0));
  Output rate = placeholder(graph_, DType::kFloat, PartialShape::scalar());
  Output g = constant(graph_, Tensor::scalar(2.0));
  SGD optimizer(rate);
  Node* train = optimizer.apply_gradients({{Gradient(g), w}});
  initialize();
  evaluator_.run_target(train, {{rate, Tensor::scalar(0.25f)}});
  EXPECT_EQ(value_of(w), Doubles{0.5});
}

TEST_F(OptimizerTest, UsedTwiceItSharesSlots) {
  Var w = make_variable(Tensor::scalar(1.0));
  Output g = constant(graph_, Tensor::scalar(2.0));
  Momentum optimizer(0.1, 0.9);
  optimizer.apply_gradients({{Gradient(g), w}});
  optimizer.apply_gradients({{Gradient(g), w}});
  EXPECT_EQ(optimizer.slots().size(), 1u);
  EXPECT_EQ(optimizer.slots()[0].name(), "w/Momentum");
}

TEST_F(OptimizerTest, SeveralTypes) {
  Var w = make_variable(Tensor::scalar(1.0));
  Var v = make_variable(Tensor::scalar(1.0f), "v");
  Adam optimizer(0.1);
  Node* train = optimizer.apply_gradients(
      {{Gradient(constant(graph_, Tensor::scalar(2.0))), w}, {Gradient(constant(graph_, Tensor::scalar(2.0f))), v}});
  initialize();
  evaluator_.run_target(train);
  EXPECT_NEAR(value_of(w)[0], 0.9, 1e-6);
  EXPECT_NEAR(value_of(v)[0], 0.9, 1e-6);
}

TEST_F(OptimizerTest, EmbeddingTrainsThroughGather) {
  Var table = make_variable(Tensor::of<double>({3, 1}, {1, 2, 3}), "table");
  Output rows = op1("ResourceGather", {table.handle(), constant(graph_, Tensor::vector<std::int32_t>({2, 2}))},
                    {{"dtype", DType::kDouble}});
  SGD optimizer(0.1);
  Node* train = optimizer.minimize(op1("Mul", {rows, rows}));
  EXPECT_EQ(train->control_inputs()[0]->op_name(), "ResourceScatterAdd");
  initialize();
  evaluator_.run_target(train);
  expect_near(value_of(table), {1, 2, 3 - 0.1 * 12});
}

}  // namespace
}  // namespace tutti

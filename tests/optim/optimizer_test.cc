#include "tutti/optim/optimizer.h"

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/sgd.h"

namespace tutti::optimizer_test {

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
  Node* update = train->control_inputs()[0];
  EXPECT_EQ(update->name(), "GradientDescent/update");
  EXPECT_EQ(update->control_inputs()[0]->op_name(), "ResourceApplyGradientDescent");
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

// Powers of a decay near one are floats beside variables of half.
TEST_F(OptimizerTest, HalvesTrainForLong) {
  Var w = make_variable(Tensor::scalar(static_cast<float>(0)), "w32");
  Var h = variable(graph_, op1("Cast", {constant(graph_, Tensor::scalar(0.0f))}, {{"DstT", DType::kHalf}}), "w16");
  Adam optimizer(0.01);
  Output g = constant(graph_, Tensor::scalar(0.25f));
  Node* alone = optimizer.apply_gradients({{Gradient(op1("Cast", {g}, {{"DstT", DType::kHalf}})), h}});
  EXPECT_EQ(optimizer.slots()[0].dtype(), DType::kFloat);
  Adam other(0.01, {}, "Other");
  Node* reference = other.apply_gradients({{Gradient(g), w}});
  initialize();
  for (int i = 0; i < 40; ++i) {
    evaluator_.run_target(alone);
    evaluator_.run_target(reference);
  }
  Output wide = op1("Cast", {h.read()}, {{"DstT", DType::kFloat}});
  EXPECT_NEAR(testing::to_doubles(evaluator_.run(wide))[0], value_of(w)[0], 0.01);
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

TEST_F(OptimizerTest, SlotsOfPartsArePartsOfSlots) {
  PartitionedVar w = partitioned_variable(graph_, Tensor::vector<double>({1, 2, 3}), "w", fixed_size_partitioner(2));
  Adam optimizer(0.1);
  optimizer.minimize(op1("Square", {w}));
  const Var slot = *optimizer.get_slot(w.parts()[1], "v");
  EXPECT_EQ(slot.name(), "w/part_1/Adam_1");
  ASSERT_TRUE(slice_info(slot));
  EXPECT_EQ(slice_info(slot)->full_name, "w/Adam_1");
  EXPECT_EQ(slice_info(slot)->spec(), "3 2,1");
  EXPECT_EQ(slot.handle().node->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@w/part_1"});
  EXPECT_FALSE(slice_info(optimizer.slots()[0]));  // beta1_power
  EXPECT_FALSE(optimizer.get_slot(w.parts()[1], "nothing"));
}

TEST_F(OptimizerTest, PartsTrainAsTheWholeWould) {
  PartitionedVar w = partitioned_variable(graph_, Tensor::vector<double>({1, 2, 3}), "w", fixed_size_partitioner(2));
  Var whole = make_variable(Tensor::vector<double>({1, 2, 3}), "whole");
  Adam optimizer(0.1), other(0.1, {}, "Other");
  Node* train = optimizer.minimize(op1("Square", {w}), w.parts());
  Node* reference = other.minimize(op1("Square", {whole}), {whole});
  initialize();
  for (int i = 0; i < 3; ++i) {
    evaluator_.run_target(train);
    evaluator_.run_target(reference);
  }
  EXPECT_EQ(testing::to_doubles(evaluator_.run(w.read())), value_of(whole));
}

// As replica_device_setter places: variables in turn, all else on the worker. Slots go where their variable went.
TEST_F(OptimizerTest, SlotsAndUpdatesFollowTheirVariable) {
  int next = 0;
  ScopeGuard scope = graph_.device_scope([&](const NodeSpec& node) {
    return node.op == "VarHandleOp" ? str_cat("/job:ps/task:", next++) : std::string("/job:worker");
  });
  Var a = make_variable(Tensor::scalar(1.0), "a"), b = make_variable(Tensor::scalar(1.0), "b");
  Momentum optimizer(0.1, 0.9);
  Node* train = optimizer.minimize(op1("Mul", {a, b}));
  EXPECT_EQ(next, 2);
  for (const Var& variable : {a, b}) {
    const Node& slot = *optimizer.get_slot(variable, "momentum")->handle().node;
    EXPECT_EQ(slot.requested_device(), variable.handle().node->requested_device());
    EXPECT_EQ(slot.attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@" + variable.name()});
  }
  // One node stands for the updates of each device.
  ASSERT_EQ(train->control_inputs().size(), 2u);
  EXPECT_EQ(train->control_inputs()[0]->requested_device(), "/job:worker");
}

TEST_F(OptimizerTest, GatedGradientsWaitForEachOther) {
  Var w = make_variable(Tensor::scalar(3.0));
  make_variable(Tensor::scalar(1.0), "unused");
  Var table = make_variable(Tensor::of<double>({3, 1}, {1, 2, 3}), "table");
  Output rows = op1("ResourceGather", {table.handle(), constant(graph_, Tensor::vector<std::int32_t>({2}))},
                    {{"dtype", DType::kDouble}});
  SGD optimizer(0.5);
  auto pairs = gate_gradients(optimizer.compute_gradients(op1("Mul", {rows, op1("Square", {w})})));
  EXPECT_TRUE(pairs[0].gradient);
  EXPECT_FALSE(pairs[1].gradient);
  EXPECT_TRUE(pairs[2].gradient.is_sparse());
  EXPECT_EQ(pairs[0].gradient.dense().node->control_inputs().size(), 1u);
  EXPECT_EQ(pairs[2].gradient.slices().values.node->control_inputs()[0],
            pairs[0].gradient.dense().node->control_inputs()[0]);
  Node* train = optimizer.apply_gradients(pairs);
  initialize();
  evaluator_.run_target(train);
  EXPECT_EQ(value_of(w), Doubles{3 - 0.5 * 18});
  EXPECT_EQ(value_of(table), (Doubles{1, 2, 3 - 0.5 * 9}));
}

TEST_F(OptimizerTest, TheTrainOpIsNamedAndNoted) {
  Var w = make_variable(Tensor::scalar(3.0));
  SGD optimizer(0.5);
  Node* train = optimizer.minimize(op1("Square", {w}), {}, {}, "step");
  EXPECT_EQ(train->name(), "step");
  EXPECT_EQ(graph_.collection("train_op"), std::vector<Node*>{train});
}

// What a wrapper sees: the two halves, each with all it needs.
TEST_F(OptimizerTest, WrappersChangeGradients) {
  class Doubled : public Optimizer {
   public:
    explicit Doubled(Optimizer& inner) : Optimizer("Doubled"), inner_(inner) {}
    const std::vector<Var>& slots() const override { return inner_.slots(); }
    std::optional<Var> get_slot(const Var& variable, const std::string& which) const override {
      return inner_.get_slot(variable, which);
    }

   protected:
    Node* apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
                const std::string& name) override {
      std::vector<GradientAndVariable> twice;
      for (const GradientAndVariable& pair : gradients) {
        twice.push_back({op1("Add", {pair.gradient.dense(), pair.gradient.dense()}), pair.variable});
      }
      return inner_.apply_gradients(twice, global_step, name);
    }

   private:
    Optimizer& inner_;
  };
  Var w = make_variable(Tensor::scalar(3.0));
  SGD inner(0.5);
  Doubled optimizer(inner);
  Node* train = optimizer.minimize(op1("Square", {w}));
  EXPECT_EQ(train->name(), "Doubled");
  initialize();
  evaluator_.run_target(train);
  EXPECT_EQ(value_of(w), Doubles{3 - 0.5 * 12});
}

}  // namespace tutti::optimizer_test

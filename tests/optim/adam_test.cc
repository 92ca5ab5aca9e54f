#include "tutti/optim/adam.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adam_test {

class AdamTest : public testing::OptimizerFixture {};

// state: m, v, step
void rule(double& w, double g, double* state) {
  const double b1 = 0.8;
  const double b2 = 0.95;
  state[2] += 1;
  state[0] = b1 * state[0] + (1 - b1) * g;
  state[1] = b2 * state[1] + (1 - b2) * g * g;
  const double rate = 0.01 * std::sqrt(1 - std::pow(b2, state[2])) / (1 - std::pow(b1, state[2]));
  w -= rate * state[0] / (std::sqrt(state[1]) + 1e-6);
}

const AdamOptions kOptions = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};

TEST_F(AdamTest, Dense) {
  Adam optimizer(0.01, kOptions);
  expect_dense(optimizer, rule, {0, 0, 0});
}

TEST_F(AdamTest, SparseMovesEveryRow) {
  Adam optimizer(0.01, kOptions);
  expect_sparse(optimizer, rule, {0, 0, 0}, /*lazy=*/false);
}

TEST_F(AdamTest, SlotsAreNamedAndPlacedAsInTensorFlow) {
  std::optional<Var> w;
  {
    ScopeGuard device = graph_.device_scope("/job:ps/task:0");
    w = make_variable(Tensor::vector<double>({1, 2}));
  }
  Var b = make_variable(Tensor::scalar(0.5), "b");
  Output g = placeholder(graph_, DType::kDouble, PartialShape{2});
  Output gb = placeholder(graph_, DType::kDouble, PartialShape::scalar());
  Adam optimizer;
  ScopeGuard scope = graph_.name_scope("train");
  ScopeGuard wait = graph_.control_dependencies({w->initializer()});
  Node* train = optimizer.apply_gradients({{Gradient(g), *w}, {Gradient(gb), b}});
  EXPECT_EQ(train->name(), "train/Adam");
  std::vector<std::string> names;
  for (const Var& slot : optimizer.slots()) {
    names.push_back(slot.name());
    EXPECT_FALSE(slot.trainable());
    EXPECT_TRUE(slot.initializer()->control_inputs().empty());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"train/beta1_power", "train/beta2_power", "w/Adam", "w/Adam_1", "b/Adam",
                                             "b/Adam_1"}));
  Node* slot = graph_.find("w/Adam");
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->requested_device(), w->handle().node->requested_device());
  EXPECT_EQ(slot->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@w"});
  EXPECT_EQ(graph_.find("train/beta1_power")->attr<std::vector<std::string>>("_class"),
            std::vector<std::string>{"loc:@b"});
}

TEST_F(AdamTest, PowersAreUpdatedAfterTheVariables) {
  Var w = make_variable(Tensor::scalar(1.0));
  Output g = placeholder(graph_, DType::kDouble, PartialShape::scalar());
  Adam optimizer(0.01, kOptions);
  Node* train = optimizer.apply_gradients({{Gradient(g), w}});
  initialize();
  EXPECT_EQ(value_of(optimizer.slots()[0]), testing::Doubles{0.8});
  evaluator_.run_target(train, {{g, Tensor::scalar(1.0)}});
  expect_near(value_of(optimizer.slots()[0]), {0.8 * 0.8});
  expect_near(value_of(optimizer.slots()[1]), {0.95 * 0.95});
}

}  // namespace tutti::adam_test

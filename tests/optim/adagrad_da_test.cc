#include "tutti/optim/adagrad_da.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adagrad_da_test {

class AdagradDATest : public testing::OptimizerFixture {
 protected:
  Var step_ = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
};

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// state: sum, sum of squares, step
void rule(double& w, double g, double* state, double l1) {
  state[0] += g;
  state[1] += g * g;
  state[2] += 1;
  w = -0.3 * sign(state[0]) * std::max(std::abs(state[0]) - l1 * state[2], 0.0) /
      (0.02 * state[2] * 0.3 + std::sqrt(state[1]));
}

TEST_F(AdagradDATest, Dense) {
  AdagradDA optimizer(0.3, step_, {.l1_regularization_strength = 0.05, .l2_regularization_strength = 0.02});
  expect_dense(
      optimizer, [](double& w, double g, double* state) { rule(w, g, state, 0.05); }, {0, 0.1, 0}, step_);
}

TEST_F(AdagradDATest, SparseWithoutL1) {
  AdagradDA optimizer(0.3, step_,
                      {.initial_gradient_squared_accumulator_value = 0.5, .l2_regularization_strength = 0.02});
  expect_sparse(
      optimizer, [](double& w, double g, double* state) { rule(w, g, state, 0); }, {0, 0.5, 0}, true, step_);
}

TEST_F(AdagradDATest, TheAccumulatorMustStartPositive) {
  EXPECT_THROW(AdagradDA(0.1, step_, {.initial_gradient_squared_accumulator_value = 0}), Error);
}

}  // namespace tutti::adagrad_da_test

#include "tutti/optim/rmsprop.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::rmsprop_test {

class RMSPropTest : public testing::OptimizerFixture {};

const RMSPropOptions kOptions = {.decay = 0.8, .momentum = 0.5, .epsilon = 1e-3};

// state: mean square, momentum
void rule(double& w, double g, double* state) {
  state[0] = 0.8 * state[0] + 0.2 * g * g;
  state[1] = 0.5 * state[1] + 0.1 * g / std::sqrt(state[0] + 1e-3);
  w -= state[1];
}

// state: mean square, momentum, mean
void centered_rule(double& w, double g, double* state) {
  state[0] = 0.8 * state[0] + 0.2 * g * g;
  state[2] = 0.8 * state[2] + 0.2 * g;
  state[1] = 0.5 * state[1] + 0.1 * g / std::sqrt(state[0] - state[2] * state[2] + 1e-3);
  w -= state[1];
}

TEST_F(RMSPropTest, Dense) {
  RMSProp optimizer(0.1, kOptions);
  expect_dense(optimizer, rule, {1, 0});
}

TEST_F(RMSPropTest, Sparse) {
  RMSProp optimizer(0.1, kOptions);
  expect_sparse(optimizer, rule, {1, 0});
}

TEST_F(RMSPropTest, Centered) {
  RMSPropOptions options = kOptions;
  options.centered = true;
  RMSProp optimizer(0.1, options);
  expect_dense(optimizer, centered_rule, {1, 0, 0});
}

}  // namespace tutti::rmsprop_test

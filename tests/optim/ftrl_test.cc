#include "tutti/optim/ftrl.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::ftrl_test {

class FtrlTest : public testing::OptimizerFixture {};

const FtrlOptions kOptions = {.l1_regularization_strength = 0.05, .l2_regularization_strength = 0.01};

// state: accumulator, linear
void rule(double& w, double g, double* state) {
  const double lr = 0.1;
  const double grown = state[0] + g * g;
  state[1] += g - (std::sqrt(grown) - std::sqrt(state[0])) / lr * w;
  const double sign = state[1] > 0 ? 1 : -1;
  w = std::abs(state[1]) > 0.05 ? (sign * 0.05 - state[1]) / (std::sqrt(grown) / lr + 2 * 0.01) : 0;
  state[0] = grown;
}

TEST_F(FtrlTest, Dense) {
  Ftrl optimizer(0.1, kOptions);
  expect_dense(optimizer, rule, {0.1, 0});
}

TEST_F(FtrlTest, Sparse) {
  Ftrl optimizer(0.1, kOptions);
  expect_sparse(optimizer, rule, {0.1, 0});
}

}  // namespace tutti::ftrl_test

#include "tutti/optim/amsgrad.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::amsgrad_test {

class AMSGradTest : public testing::OptimizerFixture {};

// state: m, v, v_hat, step
void rule(double& w, double g, double* state) {
  state[3] += 1;
  state[0] = 0.8 * state[0] + 0.2 * g;
  state[1] = 0.7 * state[1] + 0.3 * g * g;
  state[2] = std::max(state[2], state[1]);
  const double rate = 0.01 * std::sqrt(1 - std::pow(0.7, state[3])) / (1 - std::pow(0.8, state[3]));
  w -= rate * state[0] / (std::sqrt(state[2]) + 1e-6);
}

// A small beta2, so that v falls and v_hat stays.
const AdamOptions kOptions = {.beta1 = 0.8, .beta2 = 0.7, .epsilon = 1e-6};

TEST_F(AMSGradTest, Dense) {
  AMSGrad optimizer(0.01, kOptions);
  expect_dense(optimizer, rule, {0, 0, 0, 0});
}

TEST_F(AMSGradTest, SparseMovesEveryRow) {
  AMSGrad optimizer(0.01, kOptions);
  expect_sparse(optimizer, rule, {0, 0, 0, 0}, /*lazy=*/false);
}

}  // namespace tutti::amsgrad_test

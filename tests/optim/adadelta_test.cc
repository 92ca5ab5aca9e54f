#include "tutti/optim/adadelta.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adadelta_test {

class AdadeltaTest : public testing::OptimizerFixture {};

// state: accum, accum_update
void rule(double& w, double g, double* state) {
  const double rho = 0.9, epsilon = 1e-3;
  state[0] = rho * state[0] + (1 - rho) * g * g;
  const double step = std::sqrt(state[1] + epsilon) / std::sqrt(state[0] + epsilon) * g;
  state[1] = rho * state[1] + (1 - rho) * step * step;
  w -= 0.5 * step;
}

TEST_F(AdadeltaTest, Dense) {
  Adadelta optimizer(0.5, {.rho = 0.9, .epsilon = 1e-3});
  expect_dense(optimizer, rule, {0, 0});
}

TEST_F(AdadeltaTest, Sparse) {
  Adadelta optimizer(0.5, {.rho = 0.9, .epsilon = 1e-3});
  expect_sparse(optimizer, rule, {0, 0});
}

}  // namespace tutti::adadelta_test

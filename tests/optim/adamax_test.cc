#include "tutti/optim/adamax.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adamax_test {

class AdamaxTest : public testing::OptimizerFixture {};

// state: m, v, step
void rule(double& w, double g, double* state) {
  state[2] += 1;
  state[0] = 0.8 * state[0] + 0.2 * g;
  state[1] = std::max(0.95 * state[1], std::abs(g));
  w -= 0.01 / (1 - std::pow(0.8, state[2])) * state[0] / (state[1] + 1e-6);
}

const AdamaxOptions kOptions = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};

TEST_F(AdamaxTest, Dense) {
  Adamax optimizer(0.01, kOptions);
  expect_dense(optimizer, rule, {0, 0, 0});
}

TEST_F(AdamaxTest, Sparse) {
  Adamax optimizer(0.01, kOptions);
  expect_sparse(optimizer, rule, {0, 0, 0});
}

}  // namespace tutti::adamax_test

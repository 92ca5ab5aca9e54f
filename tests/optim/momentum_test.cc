#include "tutti/optim/momentum.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::momentum_test {

class MomentumTest : public testing::OptimizerFixture {};

void plain(double& w, double g, double* a) {
  a[0] = 0.9 * a[0] + g;
  w -= 0.1 * a[0];
}

void nesterov(double& w, double g, double* a) {
  a[0] = 0.9 * a[0] + g;
  w -= 0.1 * g + 0.1 * 0.9 * a[0];
}

TEST_F(MomentumTest, Dense) {
  Momentum optimizer(0.1, 0.9);
  expect_dense(optimizer, plain, {0});
}

TEST_F(MomentumTest, Sparse) {
  Momentum optimizer(0.1, 0.9);
  expect_sparse(optimizer, plain, {0});
}

TEST_F(MomentumTest, Nesterov) {
  Momentum optimizer(0.1, 0.9, {.use_nesterov = true});
  expect_dense(optimizer, nesterov, {0});
}

TEST_F(MomentumTest, NesterovSparse) {
  Momentum optimizer(0.1, 0.9, {.use_nesterov = true});
  expect_sparse(optimizer, nesterov, {0});
}

}  // namespace tutti::momentum_test

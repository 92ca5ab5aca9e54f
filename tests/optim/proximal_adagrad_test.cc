#include "tutti/optim/proximal_adagrad.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::proximal_adagrad_test {

class ProximalAdagradTest : public testing::OptimizerFixture {};

void rule(double& w, double g, double* a) {
  a[0] += g * g;
  const double rate = 0.2 / std::sqrt(a[0]);
  const double x = w - rate * g;
  w = (x > 0 ? 1 : -1) * std::max(std::abs(x) - rate * 0.3, 0.0) / (1 + rate * 0.02);
}

const ProximalAdagradOptions kOptions = {.l1_regularization_strength = 0.3, .l2_regularization_strength = 0.02};

TEST_F(ProximalAdagradTest, Dense) {
  ProximalAdagrad optimizer(0.2, kOptions);
  expect_dense(optimizer, rule, {0.1});
}

TEST_F(ProximalAdagradTest, Sparse) {
  ProximalAdagrad optimizer(0.2, kOptions);
  expect_sparse(optimizer, rule, {0.1});
}

}  // namespace tutti::proximal_adagrad_test

#include "tutti/optim/proximal_gradient_descent.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::proximal_gradient_descent_test {

class ProximalGradientDescentTest : public testing::OptimizerFixture {};

void rule(double& w, double g, double* /*state*/) {
  const double x = w - 0.2 * g;
  w = (x > 0 ? 1 : -1) * std::max(std::abs(x) - 0.2 * 0.3, 0.0) / (1 + 0.2 * 0.02);
}

const ProximalOptions kOptions = {.l1_regularization_strength = 0.3, .l2_regularization_strength = 0.02};

TEST_F(ProximalGradientDescentTest, Dense) {
  ProximalGradientDescent optimizer(0.2, kOptions);
  expect_dense(optimizer, rule, {0});
}

TEST_F(ProximalGradientDescentTest, Sparse) {
  ProximalGradientDescent optimizer(0.2, kOptions);
  expect_sparse(optimizer, rule, {0});
}

}  // namespace tutti::proximal_gradient_descent_test

#include "tutti/optim/adagrad.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adagrad_test {

class AdagradTest : public testing::OptimizerFixture {};

void rule(double& w, double g, double* a) {
  a[0] += g * g;
  w -= 0.1 * g / std::sqrt(a[0]);
}

TEST_F(AdagradTest, Dense) {
  Adagrad optimizer(0.1);
  expect_dense(optimizer, rule, {0.1});
}

TEST_F(AdagradTest, Sparse) {
  Adagrad optimizer(0.1, {.initial_accumulator_value = 0.5});
  expect_sparse(optimizer, rule, {0.5});
}

}  // namespace tutti::adagrad_test

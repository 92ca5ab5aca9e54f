#include "tutti/optim/sgd.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::sgd_test {

class SGDTest : public testing::OptimizerFixture {};

const testing::Rule kRule = [](double& w, double g, double*) { w -= 0.1 * g; };

TEST_F(SGDTest, Dense) {
  SGD optimizer(0.1);
  expect_dense(optimizer, kRule, {});
}

TEST_F(SGDTest, Sparse) {
  SGD optimizer(0.1);
  expect_sparse(optimizer, kRule, {});
}

}  // namespace tutti::sgd_test

#include "tutti/optim/nadam.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::nadam_test {

class NadamTest : public testing::OptimizerFixture {};

double momentum(double t) { return 0.8 * (1 - 0.5 * std::pow(0.96, 0.25 * t)); }

// state: m, v, product of momenta, step
void decay(double g, double* state) {
  state[3] += 1;
  state[0] = 0.8 * state[0] + 0.2 * g;
  state[1] = 0.95 * state[1] + 0.05 * g * g;
  state[2] *= momentum(state[3]);
}

void rule(double& w, double g, double* state) {
  decay(g, state);
  const double t = state[3];
  const double first = (1 - momentum(t)) * g / (1 - state[2]);
  const double second = momentum(t + 1) * state[0] / (1 - state[2] * momentum(t + 1));
  w -= 0.01 * (first + second) / (std::sqrt(state[1] / (1 - std::pow(0.95, t))) + 1e-6);
}

// Rows without a gradient stay; the rule of the fixture's sparse test gives them exactly zero.
void rule_of_rows(double& w, double g, double* state) {
  if (g == 0) return decay(g, state);
  rule(w, g, state);
}

const NadamOptions kOptions = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .schedule_decay = 0.25};

TEST_F(NadamTest, Dense) {
  Nadam optimizer(0.01, kOptions);
  expect_dense(optimizer, rule, {0, 0, 1, 0});
}

TEST_F(NadamTest, Sparse) {
  Nadam optimizer(0.01, kOptions);
  expect_sparse(optimizer, rule_of_rows, {0, 0, 1, 0}, /*lazy=*/false);
}

}  // namespace tutti::nadam_test

#include "tutti/optim/adamw.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::adamw_test {

class AdamWTest : public testing::OptimizerFixture {};

// state: m, v, step
void adam(double& w, double g, double* state) {
  state[2] += 1;
  state[0] = 0.8 * state[0] + 0.2 * g;
  state[1] = 0.95 * state[1] + 0.05 * g * g;
  const double rate = 0.01 * std::sqrt(1 - std::pow(0.95, state[2])) / (1 - std::pow(0.8, state[2]));
  w -= rate * state[0] / (std::sqrt(state[1]) + 1e-6);
}

void scaled(double& w, double g, double* state) {
  w -= 0.01 * 0.1 * w;
  adam(w, g, state);
}

void unscaled(double& w, double g, double* state) {
  w -= 0.1 * w;
  adam(w, g, state);
}

const AdamWOptions kOptions = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};

TEST_F(AdamWTest, Dense) {
  AdamW optimizer(0.01, 0.1, kOptions);
  expect_dense(optimizer, scaled, {0, 0, 0});
}

TEST_F(AdamWTest, SparseMovesEveryRow) {
  AdamW optimizer(0.01, 0.1, kOptions);
  expect_sparse(optimizer, scaled, {0, 0, 0}, /*lazy=*/false);
}

TEST_F(AdamWTest, WhateverTheLearningRate) {
  AdamWOptions options = kOptions;
  options.scaled_by_learning_rate = false;
  AdamW optimizer(0.01, 0.1, options);
  expect_dense(optimizer, unscaled, {0, 0, 0});
}

TEST_F(AdamWTest, SomeDoNotDecay) {
  AdamWOptions options = kOptions;
  options.decays = [](const Var& variable) { return variable.name() != "w"; };
  AdamW optimizer(0.01, 0.1, options);
  expect_dense(optimizer, adam, {0, 0, 0});
}

}  // namespace tutti::adamw_test

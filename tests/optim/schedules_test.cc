#include "tutti/optim/schedules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/support/graph_eval.h"
#include "tutti/ops/array.h"
#include "tutti/ops/op_table.h"
#include "tutti/optim/sgd.h"

namespace tutti::schedules_test {

class SchedulesTest : public ::testing::Test {
 protected:
  // Compares a schedule with a function of the step.
  void expect_follows(Output rate, const std::function<double(double)>& formula, double tolerance = 1e-6) {
    for (std::int64_t at : {0, 1, 2, 5, 9, 10, 11, 19, 20, 29, 30, 31, 69, 70, 71, 100, 1000}) {
      const Tensor value = evaluator_.run(rate, {{step_, Tensor::scalar(at)}});
      EXPECT_NEAR(testing::to_doubles(value)[0], formula(static_cast<double>(at)), tolerance) << "step " << at;
    }
  }

  Graph graph_{builtin_ops()};
  testing::GraphEvaluator evaluator_;
  Output step_ = placeholder(graph_, DType::kInt64, PartialShape::scalar());
};

TEST_F(SchedulesTest, Exponential) {
  expect_follows(exponential_decay(0.1, step_, 10, 0.9), [](double t) { return 0.1 * std::pow(0.9, t / 10); });
  expect_follows(exponential_decay(0.1, step_, 10, 0.9, {.staircase = true}),
                 [](double t) { return 0.1 * std::pow(0.9, std::floor(t / 10)); });
}

TEST_F(SchedulesTest, NaturalExponential) {
  expect_follows(natural_exp_decay(0.1, step_, 10, 0.5), [](double t) { return 0.1 * std::exp(-0.5 * t / 10); });
  expect_follows(natural_exp_decay(0.1, step_, 10, 0.5, {.staircase = true}),
                 [](double t) { return 0.1 * std::exp(-0.5 * std::floor(t / 10)); });
}

TEST_F(SchedulesTest, InverseTime) {
  expect_follows(inverse_time_decay(0.1, step_, 10, 0.5), [](double t) { return 0.1 / (1 + 0.5 * t / 10); });
  expect_follows(inverse_time_decay(0.1, step_, 10, 0.5, {.staircase = true}),
                 [](double t) { return 0.1 / (1 + 0.5 * std::floor(t / 10)); });
}

TEST_F(SchedulesTest, PiecewiseConstantIncludesItsBoundaries) {
  expect_follows(piecewise_constant(step_, {10, 30, 70}, {1, 0.5, 0.25, 0.125}), [](double t) {
    return t <= 10 ? 1 : t <= 30 ? 0.5 : t <= 70 ? 0.25 : 0.125;
  });
  expect_follows(piecewise_constant(step_, {}, {3}), [](double) { return 3; });
}

TEST_F(SchedulesTest, Polynomial) {
  expect_follows(polynomial_decay(0.1, step_, 20, {.end_learning_rate = 0.01, .power = 2}),
                 [](double t) { return 0.09 * std::pow(1 - std::min(t, 20.0) / 20, 2) + 0.01; });
  expect_follows(polynomial_decay(0.1, step_, 20, {.end_learning_rate = 0.01, .cycle = true}), [](double t) {
    const double length = 20 * (t == 0 ? 1 : std::ceil(t / 20));
    return 0.09 * (1 - t / length) + 0.01;
  });
}

TEST_F(SchedulesTest, Cosine) {
  expect_follows(cosine_decay(0.1, step_, 30, 0.2), [](double t) {
    return 0.1 * (0.8 * 0.5 * (1 + std::cos(std::numbers::pi * std::min(t, 30.0) / 30)) + 0.2);
  });
}

// Periods of 10, 20, 40... found by walking over them. In double: a float is on either side of a boundary.
TEST_F(SchedulesTest, CosineRestarts) {
  Output rate = constant(graph_, 0.1, DType::kDouble);
  expect_follows(
      cosine_decay_restarts(rate, step_, 10, {.t_mul = 2, .m_mul = 0.5, .alpha = 0.1}),
      [](double t) {
        double length = 10, height = 1;
        while (t >= length) {
          t -= length;
          length *= 2;
          height /= 2;
        }
        return 0.1 * (0.9 * height * 0.5 * (1 + std::cos(std::numbers::pi * t / length)) + 0.1);
      },
      1e-9);
}

TEST_F(SchedulesTest, CosineRestartsOfEqualPeriods) {
  expect_follows(cosine_decay_restarts(0.1, step_, 10, {.t_mul = 1}),
                 [](double t) { return 0.1 * 0.5 * (1 + std::cos(std::numbers::pi * std::fmod(t, 10) / 10)); });
}

TEST_F(SchedulesTest, LinearCosine) {
  expect_follows(linear_cosine_decay(0.1, step_, 30, {.num_periods = 2, .alpha = 0.1, .beta = 0.01}), [](double t) {
    const double x = std::min(t, 30.0) / 30;
    return 0.1 * ((0.1 + 1 - x) * 0.5 * (1 + std::cos(2 * std::numbers::pi * 2 * x)) + 0.01);
  });
}

TEST_F(SchedulesTest, WarmUpGoesOverIntoTheSchedule) {
  Output after = piecewise_constant(step_, {70}, {0.8, 0.08});
  expect_follows(warm_up(after, step_, 20, 0.1), [](double t) {
    return t < 20 ? 0.1 + 0.7 * t / 20 : t <= 70 ? 0.8 : 0.08;
  });
}

TEST_F(SchedulesTest, LinearScalingRule) {
  EXPECT_DOUBLE_EQ(linear_scaling_rule(256, 32), 3.2);
  EXPECT_DOUBLE_EQ(linear_scaling_rule(4, 64, 0.2, 128), 0.4);
  EXPECT_THROW(linear_scaling_rule(0, 32), Error);
}

TEST_F(SchedulesTest, TheTypeIsThatOfTheRate) {
  EXPECT_EQ(exponential_decay(0.1, step_, 10, 0.9).dtype(), DType::kFloat);
  EXPECT_EQ(exponential_decay(constant(graph_, 0.1, DType::kDouble), step_, 10, 0.9).dtype(), DType::kDouble);
}

TEST_F(SchedulesTest, Refusals) {
  EXPECT_THROW(piecewise_constant(step_, {1, 2}, {1, 2}), Error);
  EXPECT_THROW(piecewise_constant(step_, {2, 1}, {1, 2, 3}), Error);
  EXPECT_THROW(cosine_decay_restarts(0.1, step_, 10, {.t_mul = 0.5}), Error);
  EXPECT_THROW(exponential_decay(0.1, Output(), 10, 0.9), Error);
}

// The update uses the rate of the step as it was before the step is counted.
TEST_F(SchedulesTest, DrivesAnOptimizer) {
  Var w = variable(graph_, Tensor::scalar(10.0), "w");
  Var step = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
  SGD optimizer(piecewise_constant(step.read(), {0, 1}, {1, 2, 4}));
  Node* train = optimizer.apply_gradients({{Gradient(constant(graph_, Tensor::scalar(1.0))), w}}, step);
  evaluator_.run_target(global_variables_initializer(graph_));
  for (double expected : {9.0, 7.0, 3.0, -1.0}) {
    evaluator_.run_target(train);
    EXPECT_EQ(testing::to_doubles(evaluator_.run(w.read()))[0], expected);
  }
}

}  // namespace tutti::schedules_test

#include "tutti/optim/gradient_noise.h"

#include "tests/optim/optimizer_fixture.h"

namespace tutti::gradient_noise_test {

using testing::Doubles;

class GradientNoiseTest : public testing::OptimizerFixture {
 protected:
  // What was added to `count` gradients of 1 at a step.
  Doubles noise_at(std::int64_t step, std::int64_t count, const GradientNoiseOptions& options) {
    Graph graph(builtin_ops());
    Var w = variable(graph, Tensor(DType::kDouble, {count}), "w");
    Output at = constant(graph, Tensor::scalar(step));
    auto noisy = add_gradient_noise({{ones(graph, DType::kDouble, {count}), w}}, at, options);
    testing::GraphEvaluator evaluator;
    Doubles values = testing::to_doubles(evaluator.run(noisy[0].gradient.dense()));
    for (double& value : values) value -= 1;
    return values;
  }
};

double mean(const Doubles& x) {
  double sum = 0;
  for (double element : x) sum += element;
  return sum / static_cast<double>(x.size());
}

double variance(const Doubles& x) {
  const double middle = mean(x);
  double sum = 0;
  for (double element : x) sum += (element - middle) * (element - middle);
  return sum / static_cast<double>(x.size());
}

// The seed is fixed, so the bounds either hold or do not: five deviations of the estimates.
TEST_F(GradientNoiseTest, VarianceFadesWithTheStep) {
  constexpr std::int64_t kCount = 20000;
  for (std::int64_t step : {0, 10, 5000}) {
    const Doubles noise = noise_at(step, kCount, {.eta = 0.3, .gamma = 0.55, .seeds = {7, 1}});
    const double wanted = 0.3 / std::pow(1 + static_cast<double>(step), 0.55);
    EXPECT_NEAR(mean(noise), 0, 5 * std::sqrt(wanted / kCount)) << step;
    EXPECT_NEAR(variance(noise), wanted, 5 * wanted * std::sqrt(2.0 / kCount)) << step;
  }
}

TEST_F(GradientNoiseTest, SeedsMakeItRepeatAndDiffer) {
  const GradientNoiseOptions one{.seeds = {7, 1}}, other{.seeds = {8, 1}};
  EXPECT_EQ(noise_at(3, 10, one), noise_at(3, 10, one));
  EXPECT_NE(noise_at(3, 10, one), noise_at(3, 10, other));
}

TEST_F(GradientNoiseTest, NoEtaNoNoise) { EXPECT_EQ(noise_at(0, 3, {.eta = 0}), (Doubles{0, 0, 0})); }

TEST_F(GradientNoiseTest, EveryVariableHasItsOwnAndRowsStayRows) {
  Var a = make_variable(Tensor::vector<double>({0, 0}), "a");
  Var table = make_variable(Tensor::of<double>({4, 1}, {0, 0, 0, 0}), "table");
  Output zero = constant(graph_, Tensor::vector<double>({0, 0}));
  IndexedSlices rows{constant(graph_, Tensor::of<double>({1, 1}, {0})),
                     constant(graph_, Tensor::vector<std::int32_t>({2})),
                     constant(graph_, Tensor::vector<std::int32_t>({4, 1}))};
  Output step = constant(graph_, Tensor::scalar(std::int64_t{0}));
  auto noisy = add_gradient_noise({{zero, a}, {zero, a}, {rows, table}, {Gradient(), a}}, step, {.seeds = {1, 2}});
  EXPECT_NE(testing::to_doubles(evaluator_.run(noisy[0].gradient.dense())),
            testing::to_doubles(evaluator_.run(noisy[1].gradient.dense())));
  ASSERT_TRUE(noisy[2].gradient.is_sparse());
  EXPECT_NE(testing::to_doubles(evaluator_.run(noisy[2].gradient.slices().values))[0], 0);
  EXPECT_FALSE(noisy[3].gradient);
  EXPECT_THROW(add_gradient_noise({{zero, a}}, step, {.eta = -1}), Error);
}

}  // namespace tutti::gradient_noise_test

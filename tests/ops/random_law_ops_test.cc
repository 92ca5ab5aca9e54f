// What the comparison with TensorFlow's bits cannot say: ops that it has withdrawn, entropy, and whether the numbers
// follow their laws.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_eval.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::random_law_ops_test {

class RandomLawTest : public ::testing::Test {
 protected:
  Output longs(std::vector<std::int64_t> values) { return constant(graph_, Tensor::vector<std::int64_t>(values)); }
  std::vector<double> run(Output value) { return testing::to_doubles(evaluator_.run(value)); }
  Var state(std::vector<std::int64_t> words, const std::string& name) {
    return variable(graph_, Tensor::vector<std::int64_t>(words), name, false);
  }
  void initialize() { evaluator_.run_target(global_variables_initializer(graph_)); }

  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  static double variance(const std::vector<double>& values) {
    const double center = mean(values);
    double sum = 0;
    for (const double value : values) sum += (value - center) * (value - center);
    return sum / static_cast<double>(values.size());
  }

  Graph graph_{builtin_ops()};
  testing::GraphEvaluator evaluator_;
};

constexpr std::int64_t kMany = 20000;
const AttrMap kSeeds = {{"seed", std::int64_t{3}}, {"seed2", std::int64_t{4}}};

TEST_F(RandomLawTest, TheOldestGeneratorHasItsAlgorithmInItsState) {
  Var tagged = state({1, 7, 8, 9}, "tagged"), plain = state({7, 8, 9}, "plain");
  Output algorithm = constant(graph_, Tensor::scalar(std::int64_t{1}));
  Output old_way = op1("StatefulStandardNormal", {tagged.handle(), longs({5})}, {{"dtype", DType::kFloat}});
  Output new_way = op1("StatefulStandardNormalV2", {plain.handle(), algorithm, longs({5})}, {{"dtype", DType::kFloat}});
  initialize();
  const std::vector<double> first = run(old_way);
  EXPECT_EQ(first, run(new_way));
  EXPECT_NE(first, run(old_way));
  EXPECT_EQ(run(tagged.read()), (std::vector<double>{1, 7 + 2 * 5 * 256, 8, 9}));
}

TEST_F(RandomLawTest, AnotherAlgorithmIsRefused) {
  Var tagged = state({2, 7, 8, 9}, "tagged");
  Output value = op1("StatefulStandardNormal", {tagged.handle(), longs({5})}, {{"dtype", DType::kFloat}});
  initialize();
  EXPECT_EQ(evaluator_.try_run(graph_, {}, {value}).status().code(), Code::kInvalidArgument);
}

TEST_F(RandomLawTest, EntropyGivesOtherNumbersEachTime) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64}) {
    Output value = op1("NonDeterministicInts", {longs({8})}, {{"dtype", dtype}});
    EXPECT_FALSE(bitwise_equal(evaluator_.run(value), evaluator_.run(value)));
  }
}

TEST_F(RandomLawTest, TheOldPoissonIsTheNewOne) {
  Output rate = constant(graph_, Tensor::vector<float>({2.5f, 20}));
  AttrMap with_type = kSeeds;
  with_type.emplace("dtype", DType::kFloat);
  EXPECT_EQ(run(op1("RandomPoisson", {longs({9}), rate}, kSeeds)),
            run(op1("RandomPoissonV2", {longs({9}), rate}, with_type)));
}

TEST_F(RandomLawTest, PoissonNumbersFollowTheirRate) {
  for (const double rate : {0.5, 7.0, 40.0}) {
    AttrMap attrs = kSeeds;
    attrs.emplace("dtype", DType::kInt64);
    const std::vector<double> values =
        run(op1("RandomPoissonV2", {longs({kMany}), constant(graph_, rate, DType::kDouble)}, attrs));
    EXPECT_NEAR(mean(values), rate, 6 * std::sqrt(rate / kMany));
    EXPECT_NEAR(variance(values), rate, 0.1 * rate);
  }
}

TEST_F(RandomLawTest, GammaNumbersFollowTheirShape) {
  for (const double alpha : {0.3, 1.0, 6.0}) {
    const std::vector<double> values =
        run(op1("RandomGamma", {longs({kMany}), constant(graph_, alpha, DType::kDouble)}, kSeeds));
    EXPECT_NEAR(mean(values), alpha, 6 * std::sqrt(alpha / kMany));
    EXPECT_NEAR(variance(values), alpha, 0.15 * alpha);
  }
}

// The mean of the samples' slopes is the slope of their mean: of x, alpha itself, and of x^2, alpha^2 + alpha.
TEST_F(RandomLawTest, GammaNumbersMoveWithTheirShape) {
  const std::vector<double> alphas{0.3, 1.0, 6.0};
  Output alpha = constant(graph_, Tensor::vector<double>(alphas));
  Output counter = constant(graph_, Tensor::vector<std::uint64_t>({1, 2}));
  Output key = constant(graph_, Tensor::vector<std::uint64_t>({3}));
  const std::vector<Output> samples{
      op1("RandomGamma", {longs({kMany}), alpha}, kSeeds),
      op1("StatelessRandomGammaV2", {longs({kMany, 3}), longs({5, 6}), alpha}),
      op1("StatelessRandomGammaV3", {longs({kMany, 3}), key, counter, constant(graph_, 1, DType::kInt32), alpha})};
  for (Output x : samples) {
    const std::vector<double> of_x = run(gradients({x}, {alpha})[0].dense());
    const std::vector<double> of_square = run(gradients({square(x)}, {alpha})[0].dense());
    ASSERT_EQ(of_x.size(), alphas.size());
    for (std::size_t i = 0; i < alphas.size(); ++i) {
      EXPECT_NEAR(of_x[i] / kMany, 1, 0.05) << x.name() << ", alpha " << alphas[i];
      EXPECT_NEAR(of_square[i] / kMany / (2 * alphas[i] + 1), 1, 0.1) << x.name() << ", alpha " << alphas[i];
    }
  }
}

TEST_F(RandomLawTest, ClassesFollowTheirLogits) {
  Output logits = constant(graph_, Tensor::of<float>(Shape{1, 3}, {std::log(1.0f), std::log(2.0f), std::log(5.0f)}));
  AttrMap attrs = kSeeds;
  const std::vector<double> values = run(op1("Multinomial", {logits, constant(graph_, kMany, DType::kInt32)}, attrs));
  std::vector<double> shares(3, 0);
  for (const double value : values) shares[static_cast<std::size_t>(value)] += 1.0 / kMany;
  EXPECT_NEAR(shares[0], 0.125, 0.02);
  EXPECT_NEAR(shares[1], 0.25, 0.02);
  EXPECT_NEAR(shares[2], 0.625, 0.02);
}

TEST_F(RandomLawTest, BoundedNormalNumbersStayWithinTheirBounds) {
  const auto scalar = [&](double value) { return constant(graph_, value, DType::kHalf); };
  for (const double low : {-1.0, 0.25, 3.0}) {
    Output drawn = op1("ParameterizedTruncatedNormal",
                       {longs({kMany}), scalar(0), scalar(1), scalar(low), scalar(low + 0.5)}, kSeeds);
    const std::vector<double> values = run(cast(drawn, DType::kDouble));
    for (const double value : values) {
      ASSERT_GE(value, low - 0.01);
      ASSERT_LE(value, low + 0.51);
    }
    // More of them where the law is denser, nearer to 0.
    EXPECT_LT(std::abs(mean(values)), std::abs(low + 0.25) + 0.02);
  }
}

// Every operation is rounded to half: with more digits other numbers are accepted. As TensorFlow 2.15 draws them.
TEST_F(RandomLawTest, BoundedHalfNumbersAreTensorFlows) {
  struct Law {
    double mean, stddev, low, high;
    std::vector<double> expected;
  };
  const Law laws[] = {
      {1, 1.75, -1.5, -1, {-1.125, -1.3203125, -1.119140625, -1.177734375, -1.244140625}},
      {-0.375, 1.875, -1, 2, {-0.247314453125, 0.9248046875, -0.174072265625, -0.2822265625, 0.069580078125}},
      {0, 1, -2, 2, {0.28955078125, -0.2734375, -0.298583984375, 0.131103515625, -0.282470703125}},
      {0, 1, 3, INFINITY, {3.41796875, 3.134765625, 3.671875, 3.109375, 3.017578125}},
  };
  const auto scalar = [&](double value) { return constant(graph_, value, DType::kHalf); };
  for (const Law& law : laws) {
    Output drawn = op1("ParameterizedTruncatedNormal",
                       {longs({5}), scalar(law.mean), scalar(law.stddev), scalar(law.low), scalar(law.high)}, kSeeds);
    EXPECT_EQ(run(cast(drawn, DType::kDouble)), law.expected) << law.low;
  }
}

TEST_F(RandomLawTest, BoundsOfNoNumbersAreNotLookedAt) {
  Output many = placeholder_with_default(longs({5, 6}), {});
  EXPECT_TRUE(run(op1("StatelessRandomUniformInt", {longs({3, 0}), longs({1, 2}), many, many})).empty());
}

TEST_F(RandomLawTest, NoRatesGiveNoNumbers) {
  Output rates = constant(graph_, Tensor(DType::kFloat, Shape{0, 3}));
  const auto numbers = evaluator_.try_run(graph_, {}, {op1("RandomPoissonV2", {longs({2}), rates})});
  ASSERT_TRUE(numbers.ok()) << numbers.status().to_string();
  EXPECT_EQ((*numbers)[0].shape(), (Shape{2, 0, 3}));
}

TEST_F(RandomLawTest, SizesFromAHostileSender) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const auto refused = [&](const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
    const Code code = evaluator_.try_run(graph_, {}, {op1(op, std::move(inputs), std::move(attrs))}).status().code();
    EXPECT_TRUE(code == Code::kInvalidArgument || code == Code::kResourceExhausted) << op;
  };
  Output huge = placeholder_with_default(longs({kHuge, kHuge}), {});
  Output negative = placeholder_with_default(longs({-3}), {});
  Output seed = longs({1, 2}), one = constant(graph_, 1.0, DType::kDouble);
  for (Output shape : {huge, negative}) {
    refused("StatelessRandomUniform", {shape, seed});
    refused("RandomGamma", {shape, one}, kSeeds);
    refused("RandomPoissonV2", {shape, one}, kSeeds);
    refused("StatelessRandomGammaV2", {shape, seed, one});
    refused("NonDeterministicInts", {shape});
  }
  refused("StatelessRandomUniform", {longs({2}), placeholder_with_default(longs({1, 2, 3}), {})});
}

}  // namespace tutti::random_law_ops_test

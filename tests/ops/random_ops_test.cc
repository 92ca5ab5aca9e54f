#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "tests/support/kernel_runner.h"
#include "tutti/kernels/cpu/philox.h"

namespace tutti::random_ops_test {

using testing::KernelRunner;
using testing::value_of;

Tensor draw(KernelRunner& runner, const std::string& op, DType dtype, std::int32_t count, int seed, int seed2) {
  auto run = runner.run(op, op, {{"seed", seed}, {"seed2", seed2}, {"dtype", dtype}},
                        {value_of(Tensor::vector<std::int32_t>({count}))});
  EXPECT_TRUE(run->status().ok()) << run->status().to_string();
  return run->tensor();
}

TEST(Philox, KnownAnswers) {
  // Of the generator's published test vectors: all zeros, and all ones.
  cpu::Philox zeros(0, 0);
  EXPECT_EQ(zeros.next(), (cpu::Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  cpu::Philox ones(~std::uint64_t{0}, ~std::uint64_t{0});
  ones.skip(~std::uint64_t{0});
  EXPECT_EQ(ones.next(), (cpu::Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, SkippingIsCounting) {
  cpu::Philox walked(3, 5), jumped(3, 5);
  for (int i = 0; i < 1000; ++i) walked.next();
  jumped.skip(1000);
  EXPECT_EQ(walked.next(), jumped.next());
}

TEST(RandomOps, TensorFlowsBits) {
  // tf.raw_ops with seed=1, seed2=2, first run.
  KernelRunner runner;
  const Tensor uniform = draw(runner, "RandomUniform", DType::kFloat, 7, 1, 2);
  const Tensor normal = draw(runner, "RandomStandardNormal", DType::kDouble, 7, 1, 2);
  const Tensor truncated = draw(runner, "TruncatedNormal", DType::kFloat, 7, 1, 2);
  const float uniform_tf[] = {0.406396747f, 0.857599616f,  0.0553958416f, 0.0858722925f,
                              0.412153602f, 0.0366308689f, 0.65721333f};
  const double normal_tf[] = {0.58105877128257999,  -1.557429113677359,  1.5558969982659241,  -0.075399501712154163,
                              -0.27352397455564637, 0.14851612905214345, -0.70350899499362385};
  const float truncated_tf[] = {-1.04677927f, 0.839704573f, 1.23583639f, 0.303742707f,
                                0.388690919f, 1.23670471f,  0.240398034f};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(uniform.data<float>()[i], uniform_tf[i]) << i;
    EXPECT_NEAR(normal.data<double>()[i], normal_tf[i], 1e-14) << i;
    EXPECT_NEAR(truncated.data<float>()[i], truncated_tf[i], 1e-6) << i;
  }
}

TEST(RandomOps, TensorFlowsSecondRun) {
  KernelRunner runner;
  draw(runner, "RandomUniform", DType::kFloat, 7, 1, 2);
  const Tensor second = draw(runner, "RandomUniform", DType::kFloat, 7, 1, 2);
  const float second_tf[] = {0.432612896f, 0.86896801f,  0.266647577f, 0.602451921f,
                             0.88338232f,  0.247508764f, 0.327224374f};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(second.data<float>()[i], second_tf[i]) << i;
}

TEST(RandomOps, TensorFlowsIntegersAndShuffle) {
  KernelRunner runner;
  const AttrMap seeds{{"seed", 1}, {"seed2", 2}};
  auto ints = runner.run("i", "RandomUniformInt", seeds,
                         {value_of(Tensor::vector<std::int32_t>({7})), value_of(Tensor::scalar(std::int64_t{-5})),
                          value_of(Tensor::scalar(std::int64_t{1000003}))});
  EXPECT_TRUE(bitwise_equal(ints->tensor(),
                            Tensor::vector<std::int64_t>({978434, 194793, 71374, 202764, 969472, 861833, 776349})))
      << ints->tensor().to_string(20);
  auto shuffled =
      runner.run("s", "RandomShuffle", seeds, {value_of(Tensor::vector<std::int32_t>({0, 1, 2, 3, 4, 5, 6}))});
  EXPECT_TRUE(bitwise_equal(shuffled->tensor(), Tensor::vector<std::int32_t>({5, 6, 4, 2, 1, 0, 3})))
      << shuffled->tensor().to_string(20);
}

TEST(RandomOps, SeedsRepeatAndEntropyDoesNot) {
  KernelRunner a, b;
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    EXPECT_TRUE(bitwise_equal(draw(a, op, DType::kFloat, 100, 7, 0), draw(b, op, DType::kFloat, 100, 7, 0)));
    EXPECT_FALSE(bitwise_equal(draw(a, op, DType::kFloat, 100, 7, 0), draw(a, op, DType::kFloat, 100, 7, 0)))
        << op << ": a second run must go on";
  }
  KernelRunner c, d;
  EXPECT_FALSE(bitwise_equal(draw(c, "RandomUniform", DType::kFloat, 100, 0, 0),
                             draw(d, "RandomUniform", DType::kFloat, 100, 0, 0)));
}

TEST(RandomOps, ThreadsDoNotChangeTheNumbers) {
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    KernelRunner one, three;
    Team team(3);
    three.step().team = &team;
    EXPECT_TRUE(
        bitwise_equal(draw(one, op, DType::kFloat, 100003, 7, 9), draw(three, op, DType::kFloat, 100003, 7, 9)));
  }
}

TEST(RandomOps, Distributions) {
  constexpr int kCount = 200000;
  KernelRunner runner;
  const auto moments = [&](const std::string& op, DType dtype) {
    const Tensor numbers = draw(runner, op, dtype, kCount, 3, 4);
    double sum = 0, squares = 0, largest = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double x = dtype == DType::kDouble ? numbers.data<double>()[i] : numbers.data<float>()[i];
      sum += x;
      squares += x * x;
      largest = std::max(largest, std::abs(x));
    }
    const double mean = sum / kCount;
    return std::vector<double>{mean, std::sqrt(squares / kCount - mean * mean), largest};
  };
  auto uniform = moments("RandomUniform", DType::kFloat);
  EXPECT_NEAR(uniform[0], 0.5, 0.005);
  EXPECT_NEAR(uniform[1], std::sqrt(1.0 / 12), 0.005);
  EXPECT_LT(uniform[2], 1.0);
  auto normal = moments("RandomStandardNormal", DType::kFloat);
  EXPECT_NEAR(normal[0], 0, 0.01);
  EXPECT_NEAR(normal[1], 1, 0.01);
  auto truncated = moments("TruncatedNormal", DType::kFloat);
  EXPECT_NEAR(truncated[0], 0, 0.01);
  EXPECT_NEAR(truncated[1], 0.87962566, 0.01);
  EXPECT_LT(truncated[2], 2);
}

TEST(RandomOps, ShuffleKeepsRowsTogether) {
  KernelRunner runner;
  Tensor rows(DType::kInt32, {50, 2});
  for (int i = 0; i < 50; ++i) rows.data<std::int32_t>()[2 * i] = rows.data<std::int32_t>()[2 * i + 1] = i;
  const Tensor shuffled = runner.run("s", "RandomShuffle", {{"seed", 1}}, {value_of(rows)})->tensor();
  std::set<std::int32_t> seen;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(shuffled.data<std::int32_t>()[2 * i], shuffled.data<std::int32_t>()[2 * i + 1]);
    seen.insert(shuffled.data<std::int32_t>()[2 * i]);
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_FALSE(bitwise_equal(shuffled, rows));
}

TEST(RandomOps, BadArguments) {
  KernelRunner runner;
  const auto shape = [](std::vector<std::int32_t> dims) { return value_of(Tensor::vector<std::int32_t>(dims)); };
  EXPECT_EQ(runner.run("u", "RandomUniform", {{"dtype", DType::kFloat}}, {shape({-1})})->status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(runner.run("u", "RandomUniform", {{"dtype", DType::kFloat}}, {shape({0, 3})})->tensor().shape(),
            (Shape{0, 3}));
  const Value five = value_of(Tensor::scalar(std::int32_t{5}));
  EXPECT_EQ(runner.run("i", "RandomUniformInt", {}, {shape({1}), five, five})->status(),
            invalid_argument("Need minval < maxval, got 5 >= 5"));
}

}  // namespace tutti::random_ops_test

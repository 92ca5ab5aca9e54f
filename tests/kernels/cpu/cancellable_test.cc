#include "tutti/kernels/cpu/cancellable.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/kernel_runner.h"

namespace tutti::cancellable_test {

using testing::KernelRunner;
using testing::value_of;

TEST(Cancellable, BlocksCoverAllAndEndWithTheStep) {
  const auto store = testing::make_test_store();
  testing::TestStep step(*store);
  KernelContext context(step, {});
  std::int64_t covered = 0;
  int blocks = 0;
  const auto count = [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin, covered);
    covered = end;
    if (++blocks == 5) step.cancellation->cancel(cancelled("enough"));
  };
  EXPECT_TRUE(cpu::in_cancellable_blocks(context, 0, 4, count).ok());
  EXPECT_TRUE(cpu::in_cancellable_blocks(context, 3, cpu::kBytesBetweenLooks, count).ok());
  EXPECT_EQ(covered, 3);
  covered = 0;
  EXPECT_EQ(cpu::in_cancellable_blocks(context, 100, 2 * cpu::kBytesBetweenLooks, count), cancelled("enough"));
  EXPECT_EQ(covered, 2) << "the fifth block was the last";
}

// Kernels whose output is as large as a number says.
TEST(Cancellable, LargeOutputsEndWithTheStep) {
  const auto number = [](std::int32_t value) { return value_of(Tensor::scalar(value)); };
  const auto numbers = [](std::initializer_list<std::int32_t> values) {
    return value_of(Tensor::vector<std::int32_t>(values));
  };
  const Value real = value_of(Tensor::scalar(1.0f));
  const Value none = value_of(Tensor(DType::kFloat, Shape{0}));
  const Value reals = value_of(Tensor::vector<float>({1, 2, 3}));
  struct Case {
    std::string op;
    std::vector<Value> inputs;
    AttrMap attrs = {};
  };
  constexpr std::int32_t kMany = 20'000'000;
  const std::vector<Case> cases{
      {"Fill", {numbers({kMany}), real}},
      {"Fill", {numbers({10'000}), value_of(Tensor::scalar(std::string(10'000, 'x')))}},
      {"Range", {number(0), number(kMany), number(1)}},
      {"LinSpace", {real, real, number(kMany)}},
      {"OneHot", {numbers({1, 2, 3}), number(kMany), real, real}},
      {"Bincount", {numbers({1, 2, 3}), number(kMany), none}},
      {"DenseBincount", {numbers({1, 2, 3}), number(kMany), none}},
      {"UnsortedSegmentMax", {reals, numbers({0, 1, 2}), number(kMany)}},
      {"UnsortedSegmentProd", {reals, numbers({0, 1, 2}), number(kMany)}},
      {"StaticRegexReplace", {value_of(Tensor::vector<std::string>({"a", "b"}))}, {{"pattern", "a"}, {"rewrite", "b"}}},
  };
  for (const Case& one : cases) {
    KernelRunner runner;
    EXPECT_TRUE(runner.run("before", one.op, one.attrs, one.inputs)->status().ok()) << one.op;
    runner.step().cancellation->cancel(cancelled("enough"));
    EXPECT_EQ(runner.run("after", one.op, one.attrs, one.inputs)->status(), cancelled("enough")) << one.op;
  }
}

}  // namespace tutti::cancellable_test

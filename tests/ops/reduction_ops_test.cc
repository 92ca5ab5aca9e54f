#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::reduction_ops_test {

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::string& words) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs);
  ASSERT_FALSE(result.ok()) << op;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find(words), std::string::npos) << result.status().to_string();
}

TEST(ReductionOps, AxesAreChecked) {
  const Tensor x(DType::kFloat, {2, 3});
  expect_refused("Sum", {x, Tensor::vector<std::int32_t>({2})},
                 "Invalid reduction dimension (2 for input with 2 dimension(s)");
  expect_refused("Sum", {x, Tensor::vector<std::int32_t>({-3})}, "Invalid reduction dimension (-3");
  expect_refused("Max", {x, Tensor::vector<std::int64_t>({0, -2})}, "duplicate");
  expect_refused("Sum", {x, Tensor(DType::kFloat, {1})}, "Tidx");
  expect_refused("ArgMax", {x, Tensor::vector<std::int32_t>({1})}, "dimension must be a scalar");
  expect_refused("ArgMax", {x, Tensor::scalar(std::int32_t{2})}, "(2)");
  expect_refused("ArgMax", {Tensor(DType::kFloat, {0, 3}), Tensor::scalar(std::int32_t{0})}, "[0,3]");
}

TEST(ReductionOps, AxesMayComeInAnyShape) {
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ((*evaluate("Sum", {x, Tensor::of<std::int32_t>({1, 2}, {0, 1})}))[0].scalar<float>(), 10);
}

TEST(ReductionOps, NormOfComplexNumbers) {
  using C = std::complex<float>;
  const Tensor x = Tensor::vector<C>({C(3, 0), C(0, 4)});
  EXPECT_EQ((*evaluate("EuclideanNorm", {x, Tensor::scalar(std::int32_t{0})}))[0].scalar<C>(), C(5, 0));
}

TEST(ReductionOps, NothingReducesToTheIdentity) {
  const Tensor none(DType::kFloat, {0, 2}), axis = Tensor::scalar(std::int32_t{0});
  const auto first = [&](const char* op) { return (*evaluate(op, {none, axis}))[0].data<float>()[1]; };
  EXPECT_EQ(first("Sum"), 0);
  EXPECT_EQ(first("Prod"), 1);
  EXPECT_EQ(first("Max"), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(first("Min"), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(first("Mean")));
  const Tensor complex_mean = (*evaluate("Mean", {Tensor(DType::kComplex64, {0}), axis}))[0];
  EXPECT_EQ(complex_mean.scalar<std::complex<float>>(), std::complex<float>());
  const Tensor small(DType::kInt8, {0});
  EXPECT_EQ((*evaluate("Min", {small, axis}))[0].scalar<std::int8_t>(), 127);
  EXPECT_EQ((*evaluate("Max", {small, axis}))[0].scalar<std::int8_t>(), -128);
  const Tensor truth(DType::kBool, {0});
  EXPECT_TRUE((*evaluate("All", {truth, axis}))[0].scalar<bool>());
  EXPECT_FALSE((*evaluate("Any", {truth, axis}))[0].scalar<bool>());
}

// A plain running sum in float would stop growing at 2^24.
TEST(ReductionOps, LongSumsStayExact) {
  const std::int64_t n = (1 << 24) + 1000;
  Tensor ones(DType::kFloat, {n});
  for (float& x : ones.flat<float>()) x = 1;
  EXPECT_EQ((*evaluate("Sum", {ones, Tensor::scalar(std::int32_t{0})}))[0].scalar<float>(), static_cast<float>(n));
  Tensor halves(DType::kHalf, {5000});
  for (Half& x : halves.flat<Half>()) x = Half(1.0f);
  EXPECT_EQ(static_cast<float>((*evaluate("Sum", {halves, Tensor::scalar(std::int32_t{0})}))[0].scalar<Half>()), 5000);
}

TEST(ReductionOps, FirstIndexWinsTies) {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 5, 5, 2, 2, 2});
  const Tensor got = (*evaluate("ArgMax", {x, Tensor::scalar(std::int32_t{1})}))[0];
  EXPECT_TRUE(bitwise_equal(got, Tensor::vector<std::int64_t>({1, 0})));
}

}  // namespace tutti::reduction_ops_test

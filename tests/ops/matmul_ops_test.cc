#include <gtest/gtest.h>

#include <cmath>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::matmul_ops_test {

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::vector<std::string>& words) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs);
  ASSERT_FALSE(result.ok()) << op;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  }
}

TEST(MatMulOps, KnownProduct) {
  const Tensor a = Tensor::of<float>({2, 2}, {1, 2, 3, 4}), b = Tensor::of<float>({2, 2}, {5, 6, 7, 8});
  EXPECT_TRUE(bitwise_equal((*evaluate("MatMul", {a, b}))[0], Tensor::of<float>({2, 2}, {19, 22, 43, 50})));
  EXPECT_TRUE(bitwise_equal((*evaluate("MatMul", {a, b}, {{"transpose_a", true}}))[0],
                            Tensor::of<float>({2, 2}, {26, 30, 38, 44})));
}

TEST(MatMulOps, ShapesAreChecked) {
  const Tensor a(DType::kFloat, {2, 3}), b(DType::kFloat, {4, 5}), vector(DType::kFloat, {3}),
      cube(DType::kFloat, {2, 3, 4});
  expect_refused("MatMul", {a, b}, {"Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]"});
  expect_refused("MatMul", {vector, a}, {"In[0] is not a matrix", "[3]"});
  expect_refused("MatMul", {a, vector}, {"In[1] is not a matrix", "[3]"});
  expect_refused("BatchMatMulV2", {cube, Tensor(DType::kFloat, {3, 4, 2})}, {"batch", "[2,3,4]", "[3,4,2]"});
  expect_refused("BatchMatMulV2", {cube, cube}, {"Matrix size-incompatible"});
  expect_refused("BatchMatMulV2", {vector, cube}, {"[3]"});
  expect_refused("_FusedMatMul", {Tensor(DType::kFloat, {2, 4}), b, Tensor(DType::kFloat, {4})},
                 {"bias", "[4]", "[2,5]"});
}

// A diverged model must stay visible.
TEST(MatMulOps, FusedReluKeepsNan) {
  Tensor a(DType::kFloat, {40, 40}), b(DType::kFloat, {40, 40});
  a.data<float>()[0] = std::nanf("");
  const Tensor out = (*evaluate("_FusedMatMul", {a, b, Tensor(DType::kFloat, {40})}, {{"activation", "Relu"}}))[0];
  EXPECT_TRUE(std::isnan(out.data<float>()[0]));
  EXPECT_EQ(out.data<float>()[40], 0);
}

TEST(MatMulOps, HalfPrecisionAccumulatesWider) {
  Tensor a(DType::kHalf, {1, 4096}), b(DType::kHalf, {4096, 1});
  for (Half& x : a.flat<Half>()) x = Half(1.0f);
  for (Half& x : b.flat<Half>()) x = Half(1.0f);
  EXPECT_EQ(static_cast<float>((*evaluate("MatMul", {a, b}))[0].scalar<Half>()), 4096);
}

TEST(SparseMatMul, AddsUpWhatIsListedTwice) {
  const Tensor places = Tensor::of<std::int64_t>({4, 2}, {1, 0, 0, 2, 1, 0, 1, 1}),
               shape = Tensor::vector<std::int64_t>({2, 3});
  const Tensor values = Tensor::vector<float>({1, 2, 10, 5}), b = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(bitwise_equal((*evaluate("SparseTensorDenseMatMul", {places, values, shape, b}))[0],
                            Tensor::of<float>({2, 2}, {10, 12, 26, 42})));
  const Tensor wide = Tensor::of<float>({1, 2}, {1, 2});
  const AttrMap adjoints{{"adjoint_a", true}, {"adjoint_b", true}};
  EXPECT_TRUE(bitwise_equal((*evaluate("SparseTensorDenseMatMul", {places, values, shape, wide}, adjoints))[0],
                            Tensor::of<float>({3, 1}, {22, 10, 2})));
  const Tensor none(DType::kInt32, {0, 2}), no_values(DType::kFloat, {0});
  EXPECT_TRUE(bitwise_equal((*evaluate("SparseTensorDenseMatMul", {none, no_values, shape, b}))[0],
                            Tensor::of<float>({2, 2}, {0, 0, 0, 0})));
}

// As the dense product of the same matrix; enough work for several threads.
TEST(SparseMatMul, AgreesWithTheDenseProduct) {
  constexpr std::int64_t kRows = 37, kInner = 50, kColumns = 90, kCount = 1500;
  Tensor places(DType::kInt32, {kCount, 2}), values(DType::kDouble, {kCount}), a(DType::kDouble, {kRows, kInner});
  Tensor b(DType::kDouble, {kInner, kColumns});
  for (double& x : a.flat<double>()) x = 0;
  for (std::int64_t i = 0; i < b.num_elements(); ++i) b.data<double>()[i] = static_cast<double>(i % 17) - 8;
  for (std::int32_t i = 0; i < kCount; ++i) {
    const std::int32_t row = i * 7 % kRows, column = i * 11 % kInner;
    places.data<std::int32_t>()[2 * i] = row;
    places.data<std::int32_t>()[2 * i + 1] = column;
    values.data<double>()[i] = i % 13 - 6;
    a.data<double>()[row * kInner + column] += i % 13 - 6;
  }
  const Tensor shape = Tensor::vector<std::int64_t>({kRows, kInner});
  EXPECT_TRUE(bitwise_equal((*evaluate("SparseTensorDenseMatMul", {places, values, shape, b}))[0],
                            (*evaluate("MatMul", {a, b}))[0]));
}

TEST(SparseMatMul, NarrowTypesAccumulateWider) {
  Tensor places(DType::kInt64, {400, 2}), values(DType::kBfloat16, {400});
  for (std::int64_t& x : places.flat<std::int64_t>()) x = 0;
  for (Bfloat16& x : values.flat<Bfloat16>()) x = Bfloat16(1.0f);
  const Tensor one = Tensor::of<Bfloat16>({1, 1}, {Bfloat16(1.0f)}), shape = Tensor::vector<std::int64_t>({1, 1});
  const Tensor out = (*evaluate("SparseTensorDenseMatMul", {places, values, shape, one}))[0];
  EXPECT_EQ(static_cast<float>(out.data<Bfloat16>()[0]), 400);
}

TEST(SparseMatMul, Refusals) {
  const auto refused = [](const Tensor& places, const Tensor& values, std::vector<std::int64_t> shape, const Tensor& b,
                          const std::vector<std::string>& words) {
    expect_refused("SparseTensorDenseMatMul", {places, values, Tensor::vector<std::int64_t>(shape), b}, words);
  };
  const auto at = [](std::int64_t row, std::int64_t column) { return Tensor::of<std::int64_t>({1, 2}, {row, column}); };
  const Tensor one = Tensor::vector<float>({1}), b(DType::kFloat, {3, 2});
  refused(at(0, 3), one, {2, 3}, b, {"k (3) from index[0,1]", "3"});
  refused(at(0, -1), one, {2, 3}, b, {"k (-1)"});
  refused(at(2, 0), one, {2, 3}, b, {"m (2) from index[0,0]"});
  refused(at(-1, 0), one, {2, 3}, b, {"m (-1)"});
  refused(at(0, 0), one, {2, 4}, b, {"inner dimension does not match", "4", "3"});
  refused(at(0, 0), one, {2, 3}, one, {"[1]"});
  refused(at(0, 0), Tensor::vector<float>({1, 2}), {2, 3}, b, {"[1,2]", "2"});
  refused(at(0, 0), one, {2, 3, 4}, b, {"a_shape", "[3]"});
  refused(at(0, 0), one, {-1, 3}, b, {"negative", "-1"});
  refused(at(0, 0), one, {std::int64_t{1} << 62, 3}, b, {});
}

}  // namespace tutti::matmul_ops_test

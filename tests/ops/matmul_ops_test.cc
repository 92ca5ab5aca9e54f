#include <gtest/gtest.h>

#include <cmath>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

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

}  // namespace
}  // namespace tutti

#include <gtest/gtest.h>

#include "tutti/ops/op_evaluator.h"

namespace tutti::optional_ops_test {

Result<std::vector<Tensor>> evaluate(std::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

Tensor first(Result<std::vector<Tensor>> result) {
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? result->at(0) : Tensor();
}

const Tensor kVector = Tensor::vector<float>({1, 2});
const Tensor kCount = Tensor::scalar<std::int64_t>(7);

AttrMap get_attrs(std::vector<DType> types, std::vector<PartialShape> shapes) {
  return {{"output_types", std::move(types)}, {"output_shapes", std::move(shapes)}};
}

TEST(Optional, GivesBackWhatItWasMadeOf) {
  const Tensor optional = first(evaluate("OptionalFromValue", {kVector, kCount}));
  EXPECT_EQ(optional.dtype(), DType::kVariant);
  EXPECT_TRUE(first(evaluate("OptionalHasValue", {optional})).scalar<bool>());
  Result<std::vector<Tensor>> got =
      evaluate("OptionalGetValue", {optional}, get_attrs({DType::kFloat, DType::kInt64}, {{kUnknownDim}, Shape{}}));
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_TRUE(bitwise_equal(got->at(0), kVector));
  EXPECT_TRUE(bitwise_equal(got->at(1), kCount));
}

TEST(Optional, NoneHasNoValue) {
  const Tensor none = first(evaluate("OptionalNone", {}));
  EXPECT_FALSE(first(evaluate("OptionalHasValue", {none})).scalar<bool>());
  const Status status = evaluate("OptionalGetValue", {none}, get_attrs({DType::kFloat}, {PartialShape()})).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("does not have a value"), std::string::npos) << status.message();
}

TEST(Optional, ZerosAndSums) {
  const Tensor optional = first(evaluate("OptionalFromValue", {kVector, kCount}));
  const Tensor none = first(evaluate("OptionalNone", {}));
  const AttrMap attrs = get_attrs({DType::kFloat, DType::kInt64}, {{2}, Shape{}});
  const auto zeros = evaluate("OptionalGetValue", {first(evaluate("ZerosLike", {optional}))}, attrs).value_or_throw();
  EXPECT_TRUE(bitwise_equal(zeros[0], Tensor::vector<float>({0, 0})));
  EXPECT_TRUE(bitwise_equal(zeros[1], Tensor::scalar<std::int64_t>(0)));
  const auto sums =
      evaluate("OptionalGetValue", {first(evaluate("AddN", {optional, optional, optional}))}, attrs).value_or_throw();
  EXPECT_TRUE(bitwise_equal(sums[0], Tensor::vector<float>({3, 6})));
  EXPECT_TRUE(bitwise_equal(sums[1], Tensor::scalar<std::int64_t>(21)));
  for (const Tensor& empty : {first(evaluate("ZerosLike", {none})), first(evaluate("AddN", {none, none}))}) {
    EXPECT_FALSE(first(evaluate("OptionalHasValue", {empty})).scalar<bool>());
  }
  const Status differ = evaluate("AddN", {optional, none}).status();
  EXPECT_NE(differ.message().find("one has a value and the other doesn't"), std::string::npos) << differ.message();
}

TEST(Optional, ComponentsMustFit) {
  const Tensor optional = first(evaluate("OptionalFromValue", {kVector}));
  const auto message = [&](std::vector<DType> types, std::vector<PartialShape> shapes) {
    const Status status = evaluate("OptionalGetValue", {optional}, get_attrs(types, shapes)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(message({DType::kInt32}, {PartialShape()}).find("component 0 is float [2], not int32"), std::string::npos);
  EXPECT_NE(message({DType::kFloat}, {{3}}).find("component 0 is float [2], not float [3]"), std::string::npos);
  EXPECT_NE(message({DType::kFloat, DType::kFloat}, {{2}, {2}}).find("1 components, not 2"), std::string::npos);
}

TEST(Optional, OtherVariantsAreRefused) {
  const Status empty = evaluate("OptionalHasValue", {Tensor(DType::kVariant, Shape{})}).status();
  EXPECT_NE(empty.message().find("an optional is needed, got nothing"), std::string::npos) << empty.message();
  const Status vector = evaluate("OptionalHasValue", {Tensor(DType::kVariant, Shape{2})}).status();
  EXPECT_EQ(vector.code(), Code::kInvalidArgument);
}

}  // namespace tutti::optional_ops_test

#include "tutti/core/attr_value.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::attr_value_test {

FunctionRef function_ref(std::string name, AttrMap attrs) {
  return {std::move(name), std::make_shared<const AttrMap>(std::move(attrs))};
}

TEST(AttrValue, KindsAndText) {
  const struct {
    AttrValue value;
    const char* kind;
    const char* text;
  } cases[] = {
      {{}, "", ""},
      {"text\n", "string", "\"text\\n\""},
      {3, "int", "3"},
      {std::int64_t{-5}, "int", "-5"},
      {0.1f, "float", "0.1"},
      {true, "bool", "true"},
      {DType::kFloat, "type", "float"},
      {PartialShape{kUnknownDim, 2}, "shape", "[?,2]"},
      {Tensor::vector<int>({1, 2}), "tensor", "int32 [2] {1, 2}"},
      {FunctionRef{"f", nullptr}, "func", "f"},
      {function_ref("f", {{"T", DType::kInt32}, {"n", 2}}), "func", "f[T=int32, n=2]"},
      {AttrPlaceholder{"T"}, "placeholder", "$T"},
      {EmptyList{}, "list()", "[]"},
      {std::vector<std::string>{"a", "b"}, "list(string)", "[\"a\", \"b\"]"},
      {std::vector<std::int64_t>{1, 2}, "list(int)", "[1, 2]"},
      {std::vector<float>{0.5f}, "list(float)", "[0.5]"},
      {std::vector<bool>{true, false}, "list(bool)", "[true, false]"},
      {std::vector<DType>{DType::kHalf, DType::kString}, "list(type)", "[half, string]"},
      {std::vector<PartialShape>{PartialShape{}, PartialShape{1}}, "list(shape)", "[<unknown>, [1]]"},
      {std::vector<Tensor>{Tensor::scalar(1.5f)}, "list(tensor)", "[float [] {1.5}]"},
      {std::vector<FunctionRef>{{"f", nullptr}, {"g", nullptr}}, "list(func)", "[f, g]"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.value.kind(), c.kind);
    EXPECT_EQ(c.value.to_string(), c.text);
    for (const auto& other : cases) {
      EXPECT_EQ(c.value == other.value, &c == &other) << c.text << " and " << other.text;
    }
  }
}

TEST(AttrValue, GetAsksForTheKind) {
  const AttrValue value = 7;
  ASSERT_NE(value.get<std::int64_t>(), nullptr);
  EXPECT_EQ(*value.get<std::int64_t>(), 7);
  EXPECT_EQ(value.get<float>(), nullptr);
  EXPECT_EQ(value.get<std::vector<std::int64_t>>(), nullptr);
  EXPECT_EQ(AttrValue().get<std::string>(), nullptr);
}

TEST(AttrValue, AnEmptyListIsOneOfAnyKind) {
  const AttrValue empty = EmptyList{};
  ASSERT_NE(empty.get<std::vector<DType>>(), nullptr);
  EXPECT_TRUE(empty.get<std::vector<DType>>()->empty());
  ASSERT_NE(empty.get<std::vector<std::string>>(), nullptr);
  EXPECT_EQ(empty.get<std::int64_t>(), nullptr);
  EXPECT_EQ(empty, AttrValue(std::vector<DType>{}));
  EXPECT_EQ(AttrValue(std::vector<float>{}), AttrValue(std::vector<DType>{}));
  EXPECT_FALSE(empty == AttrValue(std::vector<float>{0}));
  EXPECT_FALSE(empty == AttrValue());
}

TEST(AttrValue, AShapeBecomesAPartialShape) {
  const AttrValue value = Shape{2, 3};
  ASSERT_NE(value.get<PartialShape>(), nullptr);
  EXPECT_EQ(*value.get<PartialShape>(), (PartialShape{2, 3}));
}

TEST(AttrValue, ComparesFloatsAndTensorsByBits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(AttrValue(kNan), AttrValue(kNan));
  EXPECT_FALSE(AttrValue(0.0f) == AttrValue(-0.0f));
  EXPECT_EQ(AttrValue(std::vector<float>{kNan}), AttrValue(std::vector<float>{kNan}));
  EXPECT_EQ(AttrValue(Tensor::scalar(kNan)), AttrValue(Tensor::scalar(kNan)));
  EXPECT_FALSE(AttrValue(Tensor::scalar(1.0f)) == AttrValue(Tensor::scalar(2.0f)));
  EXPECT_FALSE(AttrValue(std::vector<Tensor>{Tensor::scalar(1)}) == AttrValue(std::vector<Tensor>{Tensor::scalar(2)}));
}

TEST(FunctionRef, ComparesDeeply) {
  EXPECT_EQ(function_ref("f", {{"T", DType::kInt32}}), function_ref("f", {{"T", DType::kInt32}}));
  EXPECT_FALSE(function_ref("f", {{"T", DType::kInt32}}) == function_ref("f", {{"T", DType::kInt64}}));
  EXPECT_FALSE(function_ref("f", {{"T", DType::kInt32}}) == (FunctionRef{"f", nullptr}));
  EXPECT_EQ(function_ref("f", {}), (FunctionRef{"f", nullptr}));
  EXPECT_FALSE(function_ref("f", {}) == function_ref("g", {}));
}

}  // namespace tutti::attr_value_test

#include "tutti/graph/shape_inference.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"

namespace tutti::shape_inference_test {

using testing::add;
using testing::constant;
using testing::placeholder;
using testing::test_ops;

class ShapeInferenceTest : public ::testing::Test {
 protected:
  Output floats(const PartialShape& shape) { return placeholder(graph_, DType::kFloat, shape); }
  Output ints(std::initializer_list<std::int32_t> values) {
    return constant(graph_, Tensor::vector<std::int32_t>(values));
  }
  Output integer(std::int32_t value) { return constant(graph_, Tensor::scalar(value)); }
  PartialShape reshaped(Output shape) { return add(graph_, "Reshape", {floats({}), shape})->output_shape(0); }
  PartialShape sum(Output x, Output axes, bool keep = false) {
    return add(graph_, "Sum", {x, axes}, {{"keep_dims", keep}})->output_shape(0);
  }
  Graph graph_{test_ops()};
};

TEST_F(ShapeInferenceTest, Broadcast) {
  EXPECT_EQ(add(graph_, "Add", {floats({2, 1}), floats({3})})->output_shape(0), (PartialShape{2, 3}));
  EXPECT_EQ(add(graph_, "Add", {floats(PartialShape::scalar()), floats({0})})->output_shape(0), (PartialShape{0}));
  EXPECT_FALSE(add(graph_, "Add", {floats(PartialShape()), floats({3})})->output_shape(0).has_rank());
  Result<Node*> bad = graph_.add_node({.op = "Add", .name = "bad", .inputs = {floats({2}), floats({3})}});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("Add \"bad\": "), std::string::npos);
  EXPECT_NE(bad.status().message().find("[2], [3]"), std::string::npos);
}

TEST_F(ShapeInferenceTest, AllSame) {
  EXPECT_EQ(add(graph_, "AddN", {floats({-1, 3}), floats({2, -1}), floats(PartialShape())})->output_shape(0),
            (PartialShape{2, 3}));
  EXPECT_FALSE(graph_.add_node({.op = "AddN", .inputs = {floats({2}), floats({2, 2})}}).ok());
}

TEST_F(ShapeInferenceTest, Reductions) {
  Output x = floats({2, 3, -1});
  EXPECT_EQ(sum(x, ints({0, -1})), (PartialShape{3}));
  EXPECT_EQ(sum(x, ints({0, 2}), true), (PartialShape{1, 3, 1}));
  EXPECT_EQ(sum(x, integer(1)), (PartialShape{2, -1}));
  EXPECT_EQ(sum(x, ints({})), (PartialShape{2, 3, -1}));
  Output open = placeholder(graph_, DType::kInt32, PartialShape());
  EXPECT_FALSE(sum(x, open).has_rank());
  EXPECT_EQ(sum(x, open, true), (PartialShape{-1, -1, -1}));
  EXPECT_FALSE(sum(floats(PartialShape()), ints({0})).has_rank());
  Result<Node*> bad = graph_.add_node({.op = "Sum", .inputs = {x, ints({3})}});
  EXPECT_NE(bad.status().message().find("axis 3 is out of range [-3, 3)"), std::string::npos);
}

TEST_F(ShapeInferenceTest, ReadsShapesFromValues) {
  EXPECT_EQ(reshaped(ints({2, -1})), (PartialShape{2, -1}));
  EXPECT_EQ(reshaped(ints({})), PartialShape::scalar());
  EXPECT_FALSE(reshaped(ints({2, -7})).has_rank());
  Output x = floats({4, -1});
  Output shape = add(graph_, "Shape", {x})->output();
  EXPECT_EQ(reshaped(shape), (PartialShape{4, -1}));
  Output scalar = placeholder(graph_, DType::kInt32, PartialShape::scalar());
  EXPECT_EQ(reshaped(add(graph_, "Pack", {scalar, integer(5)})->output()), (PartialShape{-1, 5}));
  EXPECT_FALSE(reshaped(add(graph_, "Pack", {ints({1}), ints({5})})->output()).has_rank());
  EXPECT_EQ(reshaped(add(graph_, "ConcatV2", {shape, ints({7}), integer(0)})->output()), (PartialShape{4, -1, 7}));
  Output copied = add(graph_, "Identity", {shape})->output();
  Output wide = add(graph_, "Cast", {copied}, {{"DstT", DType::kInt64}})->output();
  EXPECT_EQ(reshaped(wide), (PartialShape{4, -1}));
  EXPECT_EQ(reshaped(placeholder(graph_, DType::kInt32, {3})), (PartialShape{-1, -1, -1}));
  EXPECT_FALSE(reshaped(placeholder(graph_, DType::kInt32, {-1})).has_rank());
  EXPECT_FALSE(reshaped(placeholder(graph_, DType::kInt32, {1 << 20})).has_rank());
}

TEST_F(ShapeInferenceTest, FindsConstants) {
  Output x = floats({2, 3});
  Output size = add(graph_, "Size", {x}, {{"out_type", DType::kInt64}})->output();
  Node* user =
      add(graph_, "Pack",
          {size, add(graph_, "Cast", {add(graph_, "Rank", {x})->output()}, {{"DstT", DType::kInt64}})->output()});
  ShapeContext context(*user);
  EXPECT_EQ(context.constant(0)->scalar<std::int64_t>(), 6);
  EXPECT_EQ(context.constant(1)->scalar<std::int64_t>(), 2);
  Node* outer = add(graph_, "Identity", {user->output()});
  EXPECT_EQ(ShapeContext(*outer).constant(0)->to_string(), (Tensor::vector<std::int64_t>({6, 2}).to_string()));
  Node* unknown = add(graph_, "Identity", {add(graph_, "Shape", {floats({-1})})->output()});
  EXPECT_FALSE(ShapeContext(*unknown).constant(0));
  Node* text = add(graph_, "Identity", {constant(graph_, Tensor::scalar(std::string("x")))});
  EXPECT_EQ(ShapeContext(*text).constant(0)->scalar<std::string>(), "x");
}

TEST_F(ShapeInferenceTest, DeepTanglesStayCheap) {
  Output x = ints({1, 2});
  for (int i = 0; i < 40; ++i) x = add(graph_, "ConcatV2", {x, x, integer(0)})->output();
  EXPECT_FALSE(reshaped(x).has_rank());
}

TEST_F(ShapeInferenceTest, LooksThroughHandles) {
  Node* handle = add(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{5}}});
  Output copy = add(graph_, "Identity", {handle->output()})->output();
  Node* read = add(graph_, "ReadVariableOp", {copy}, {{"dtype", DType::kFloat}});
  EXPECT_EQ(read->output_shape(0), (PartialShape{5}));
  EXPECT_EQ(ShapeContext(*read).resource_dtype(0), DType::kFloat);
  Node* arg = add(graph_, "_Arg", {}, {{"T", DType::kResource}, {"index", 0}});
  graph_.set_attr(*arg, "_handle_shapes", std::vector<PartialShape>{{6}});
  graph_.set_attr(*arg, "_handle_dtypes", std::vector<DType>{DType::kDouble});
  Node* other = add(graph_, "ReadVariableOp", {arg->output()}, {{"dtype", DType::kDouble}});
  EXPECT_EQ(other->output_shape(0), (PartialShape{6}));
  EXPECT_EQ(ShapeContext(*other).resource_dtype(0), DType::kDouble);
  Node* bare = add(graph_, "_Arg", {}, {{"T", DType::kResource}, {"index", 1}});
  Node* open = add(graph_, "ReadVariableOp", {bare->output()}, {{"dtype", DType::kDouble}});
  EXPECT_FALSE(open->output_shape(0).has_rank());
  EXPECT_EQ(ShapeContext(*open).resource_dtype(0), DType::kInvalid);
}

TEST_F(ShapeInferenceTest, RankChecks) {
  Node* node = add(graph_, "Neg", {floats({2, 3})});
  ShapeContext context(*node);
  EXPECT_TRUE(context.with_rank(0, 2).ok());
  EXPECT_EQ(context.with_rank(0, 1).status().message(), "input 0 must have rank 1, got shape [2,3]");
  EXPECT_TRUE(context.with_rank_at_least(0, 2).ok());
  EXPECT_FALSE(context.with_rank_at_least(0, 3).ok());
  EXPECT_EQ(*ShapeContext::normalise_axis(-1, 3), 2);
  EXPECT_EQ(*ShapeContext::normalise_axis(0, 3), 0);
  EXPECT_FALSE(ShapeContext::normalise_axis(3, 3).ok());
  EXPECT_FALSE(ShapeContext::normalise_axis(0, 0).ok());
}

}  // namespace tutti::shape_inference_test

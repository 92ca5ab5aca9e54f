// Blocks of space moved to the batch and to the channels: values by hand, the way back, and errors. Random cases are
// compared with TensorFlow's in tests/interop/drawn.
#include <gtest/gtest.h>

#include <limits>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::block_ops_test {

Result<std::vector<Tensor>> try_op(const std::string& op, const std::vector<Tensor>& inputs,
                                   const AttrMap& attrs = {}) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}
Tensor ints(const Shape& shape, const std::vector<std::int32_t>& values) {
  return Tensor::of<std::int32_t>(shape, values);
}
Tensor counted(const Shape& shape) {
  Tensor tensor(DType::kFloat, shape);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.data<float>()[i] = static_cast<float>(i + 1);
  return tensor;
}

TEST(BlockOps, ByHand) {
  const Tensor image = counted({1, 2, 2, 1}), none = ints({2, 2}, {0, 0, 0, 0});
  EXPECT_TRUE(bitwise_equal((*try_op("SpaceToBatch", {image, none}, {{"block_size", 2}}))[0], counted({4, 1, 1, 1})));
  EXPECT_TRUE(bitwise_equal((*try_op("SpaceToDepth", {image}, {{"block_size", 2}}))[0], counted({1, 1, 1, 4})));
  // One dimension, padded in front: [0 1 | 2 3] by place in a block.
  const Tensor line = counted({1, 3}), front = ints({1, 2}, {1, 0});
  EXPECT_TRUE(bitwise_equal((*try_op("SpaceToBatchND", {line, ints({1}, {2}), front}))[0],
                            Tensor::of<float>({2, 2}, {0, 2, 1, 3})));
  EXPECT_TRUE(bitwise_equal((*try_op("SpaceToBatchND", {line, ints({0}, {}), ints({0, 2}, {})}))[0], line));
}

TEST(BlockOps, TheWayBackIsTheInverse) {
  const Tensor image = counted({3, 5, 4, 2}), block = ints({2}, {2, 3}), sides = ints({2, 2}, {1, 2, 4, 1});
  const Tensor batch = (*try_op("SpaceToBatchND", {image, block, sides}))[0];
  EXPECT_EQ(batch.shape(), Shape({18, 4, 3, 2}));
  EXPECT_TRUE(bitwise_equal((*try_op("BatchToSpaceND", {batch, block, sides}))[0], image));
  const Tensor even = counted({2, 4, 6, 3});
  const Tensor depth = (*try_op("SpaceToDepth", {even}, {{"block_size", 2}}))[0];
  EXPECT_EQ(depth.shape(), Shape({2, 2, 3, 12}));
  EXPECT_TRUE(bitwise_equal((*try_op("DepthToSpace", {depth}, {{"block_size", 2}}))[0], even));
}

TEST(BlockOps, Refusals) {
  const auto expect_refused = [](const Result<std::vector<Tensor>>& result, const std::string& word) {
    ASSERT_FALSE(result.ok()) << word;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  };
  const Tensor line = counted({2, 3}), two = ints({1}, {2}), none = ints({1, 2}, {0, 0});
  expect_refused(try_op("SpaceToBatchND", {line, two, none}), "divisible");
  expect_refused(try_op("SpaceToBatchND", {line, ints({1}, {0}), none}), "positive");
  expect_refused(try_op("SpaceToBatchND", {line, two, ints({1, 2}, {-1, 0})}), "non-negative");
  expect_refused(try_op("SpaceToBatchND", {line, ints({2}, {1, 1}), ints({2, 2}, {0, 0, 0, 0})}), "rank");
  expect_refused(try_op("SpaceToBatchND", {line, two, ints({2, 2}, {0, 0, 0, 0})}), "");
  expect_refused(try_op("BatchToSpaceND", {line, ints({1}, {3}), none}), "divisible");
  expect_refused(try_op("BatchToSpaceND", {line, two, ints({1, 2}, {4, 3})}), "");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor huge = Tensor::vector<std::int64_t>({most}), huge_sides = Tensor::of<std::int64_t>({1, 2}, {most, most});
  expect_refused(try_op("SpaceToBatchND", {line, huge, none}), "large");
  expect_refused(try_op("SpaceToBatchND", {line, two, huge_sides}), "");
  expect_refused(try_op("BatchToSpaceND", {line, two, huge_sides}), "");
  expect_refused(try_op("SpaceToDepth", {counted({1, 3, 2, 1})}, {{"block_size", 2}}), "divisible");
  expect_refused(try_op("DepthToSpace", {counted({1, 1, 1, 6})}, {{"block_size", 2}}), "divisible");
  expect_refused(try_op("DepthToSpace", {counted({1, 1, 1, 4})}, {{"block_size", most}}), "");
  expect_refused(try_op("DepthToSpace", {counted({1, 4, 1, 1})}, {{"block_size", 2}, {"data_format", "NCHW"}}), "NHWC");
}

}  // namespace tutti::block_ops_test

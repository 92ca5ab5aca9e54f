// Tensors of no bytes whose sides are immense, lists that do not belong together, and products that explode: every op
// answers at once, with a result or an error.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::hostile_shapes_test {

using Types = std::vector<DType>;
using Shapes = std::vector<PartialShape>;

constexpr std::int64_t kMany = std::int64_t{1} << 62;
constexpr std::int64_t kSteps = std::int64_t{1} << 60;
constexpr std::int64_t kSide = std::int64_t{1} << 31;

Tensor none(const Shape& shape, DType dtype = DType::kFloat) {
  EXPECT_EQ(shape.num_elements(), 0);
  return Tensor(dtype, shape);
}
Tensor zeros(const Shape& shape) {
  Tensor tensor(DType::kFloat, shape);
  for (float& element : tensor.flat<float>()) element = 0;
  return tensor;
}
Tensor longs(const std::vector<std::int64_t>& values) { return Tensor::vector<std::int64_t>(values); }
Tensor ints(const std::vector<std::int32_t>& values) { return Tensor::vector<std::int32_t>(values); }
Tensor floats(const std::vector<float>& values) { return Tensor::vector<float>(values); }
Tensor texts(const std::vector<std::string>& values) { return Tensor::vector<std::string>(values); }

struct HostileCase {
  std::string op;
  std::vector<Tensor> inputs;
  AttrMap attrs = {};
  std::optional<Shape> first = {};  // of output 0; none: it is refused
  Code code = Code::kInvalidArgument;
};

void check_case(const HostileCase& one) {
  SCOPED_TRACE(one.op);
  const Result<std::vector<Tensor>> result = evaluate_op(*builtin_ops(), one.op, one.attrs, one.inputs);
  if (!one.first) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), one.code) << result.status().to_string();
    return;
  }
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ((*result)[0].shape(), *one.first);
}

void check_cases(const std::vector<HostileCase>& cases) {
  for (const HostileCase& one : cases) check_case(one);
}

std::vector<Tensor> operator+(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(HostileShapes, RecurrentRowsOfNothing) {
  const Tensor rows = none({kMany, 0}), v = none({0}), w = none({0, 0});
  const std::vector<Tensor> gru{rows, rows, w, w, v, v};
  const Tensor few = none({kMany / 2, 0});
  const std::vector<Tensor> cell{few, few, few, w, v, v, v, v};
  const Tensor one = zeros({1}), state = none({0, 1}), states = none({kSteps, 0, 1});
  const std::vector<Tensor> sequence{
      Tensor::scalar(kSteps), states, state, state, zeros({2, 4}), one, one, one, zeros({4})};
  check_cases(
      {{"GRUBlockCell", gru, {}, Shape{kMany, 0}},
       {"GRUBlockCellGrad", gru + std::vector<Tensor>(4, rows), {}, Shape{kMany, 0}},
       {"LSTMBlockCell", cell, {}, Shape{kMany / 2, 0}},
       {"LSTMBlockCellGrad", cell + std::vector<Tensor>(8, few), {{"use_peephole", false}}, Shape{kMany / 2, 0}},
       {"BlockLSTM", sequence, {}, Shape{kSteps, 0, 1}},
       {"BlockLSTMGrad", sequence + std::vector<Tensor>(9, states), {{"use_peephole", true}}, Shape{kSteps, 0, 1}}});
}

TEST(HostileShapes, LayoutsOfNothing) {
  const std::vector<std::int64_t> no_padding{0, 0, 0, 0}, wide{kMany, kMany, 0, 0};
  const auto paddings = [](const std::vector<std::int64_t>& values) {
    return Tensor::of<std::int64_t>({2, 2}, std::span(values));
  };
  const AttrMap symmetric{{"mode", "SYMMETRIC"}};
  check_cases({
      {"UniqueV2", {none({kMany, 1, 0}), longs({1})}, {}, Shape{kMany, 1, 0}},
      {"UniqueV2", {none({kMany, 0}), longs({1})}, {}, Shape{kMany, 0}},
      {"UniqueWithCountsV2", {none({7, 0}), longs({0})}, {}, Shape{1, 0}},
      {"UniqueV2", {none({kMany, 0}), longs({0})}},  // numbers of 32 bits
      {"TensorScatterUpdate", {none({0}), none({kMany, 0}, DType::kInt64), none({kMany, 0})}, {}, Shape{0}},
      {"GatherNd", {none({0}), none({kMany, 0}, DType::kInt64)}, {}, Shape{kMany, 0}},
      {"MirrorPad", {none({kSide * 4, 0}), paddings(no_padding)}, symmetric, Shape{kSide * 4, 0}},
      {"MirrorPad", {none({kMany, 0}), paddings(wide)}, symmetric},
      {"MirrorPadGrad", {none({kSide * 4, 0}), paddings(no_padding)}, symmetric, Shape{kSide * 4, 0}},
      {"TensorListFromTensor",
       {none({kSide * 4, 0}), longs({0})},
       {{"element_dtype", DType::kFloat}},
       {},
       Code::kResourceExhausted},
  });
}

// One number must not take all memory.
TEST(HostileShapes, ListsOfNothing) {
  const AttrMap of_floats{{"element_dtype", DType::kFloat}};
  const Tensor any = Tensor::scalar(std::int32_t{-1}), many = Tensor::scalar(std::int32_t{1} << 27);
  const Tensor list = evaluate_op(*builtin_ops(), "EmptyTensorList", of_floats, {any, any}).value_or_throw()[0];
  const auto refused = [](const std::string& op, const std::vector<Tensor>& inputs, const AttrMap& attrs = {}) {
    return HostileCase{op, inputs, attrs, {}, Code::kResourceExhausted};
  };
  check_cases({refused("TensorListReserve", {any, many}, of_floats), refused("TensorListResize", {list, many}),
               refused("TensorListSetItem", {list, many, floats({1})}, {{"resize_if_index_out_of_bounds", true}}),
               refused("TensorListScatterV2", {none({0, 1}), ints({}), any, many}, of_floats),
               refused("TensorListScatter", {zeros({1, 1}), ints({1 << 27}), any}, of_floats)});
}

TEST(HostileShapes, SlicesOfNothingAreAllTheSame) {
  const auto out = evaluate_op(*builtin_ops(), "UniqueWithCountsV2", {}, {none({3, 0}), longs({0})}).value_or_throw();
  EXPECT_TRUE(bitwise_equal(out[1], ints({0, 0, 0})));
  EXPECT_TRUE(bitwise_equal(out[2], ints({3})));
}

TEST(HostileShapes, NumbersAndCrossesOfNothing) {
  const Tensor one = Tensor::scalar(1.0f);
  const AttrMap crossed{{"N", 0},
                        {"sparse_types", Types{}},
                        {"dense_types", Types{DType::kInt64}},
                        {"num_buckets", 0},
                        {"hash_key", 0},
                        {"hashed_output", true},
                        {"out_type", DType::kInt64},
                        {"internal_type", DType::kInt64}};
  Tensor column(DType::kString, Shape{1, 64});
  const std::vector<Tensor> columns(5, column);
  check_cases({
      {"ParameterizedTruncatedNormal",
       {longs({kMany, 0}), one, one, floats({-1}), one},
       {{"dtype", DType::kFloat}},
       Shape{kMany, 0}},
      {"SparseCross", {none({kMany, 0}, DType::kInt64)}, crossed, Shape{0, 2}},
      {"SparseCrossV2",
       columns + std::vector<Tensor>{Tensor::scalar(std::string("_"))},
       {{"N", 0}, {"sparse_types", Types{}}, {"dense_types", Types(5, DType::kString)}},
       {},
       Code::kResourceExhausted},
  });
}

TEST(HostileShapes, ImagesOfNothing) {
  const Tensor box = zeros({1, 4}), index = ints({0});
  const Tensor grads = none({1, kSide, kSide, 0});
  check_cases({
      {"CropAndResizeGradImage", {grads, box, index, ints({1, 1, 1, 0})}, {{"T", DType::kFloat}}, Shape{1, 1, 1, 0}},
      {"CropAndResizeGradBoxes", {grads, none({1, 1, 1, 0}), box, index}, {}, Shape{1, 4}},
      {"EncodePng", {none({kSide, 0, 1, 1}, DType::kUint8)}, {}, {}, Code::kInternal},
  });
  // Whether an image without pixels is refused is another matter.
  (void)evaluate_op(*builtin_ops(), "ScaleAndTranslateGrad", {},
                    {none({1, kSide - 1, kSide - 1, 0}), none({1, 0, 0, 0}), floats({1, 1}), floats({0, 0})});
}

TEST(HostileShapes, RowsThatCostMoreThanTheirPixels) {
  const cpu::internal::ResizeSizes drawn{
      .batch = 1, .in_height = 1, .in_width = 1 << 24, .out_height = 1 << 20, .out_width = 1, .channels = 1};
  EXPECT_EQ(cpu::internal::check_row_work(drawn, drawn.out_height).code(), Code::kResourceExhausted);
  const cpu::internal::ResizeSizes usual{
      .batch = 256, .in_height = 9000, .in_width = 9000, .out_height = 224, .out_width = 224, .channels = 3};
  EXPECT_TRUE(cpu::internal::check_row_work(usual, usual.in_height).ok());
}

// Few columns are merged one by one, many as whole rows: the same bits.
TEST(HostileShapes, SqueezedRowsAreTheSame) {
  Tensor image(DType::kFloat, Shape{1, 3, 40, 1});
  float value = 0.3f;
  for (float& pixel : image.flat<float>()) pixel = value = value * 1.7f - static_cast<float>(static_cast<int>(value));
  const auto resized = [&](std::int32_t width) {
    return evaluate_op(*builtin_ops(), "ResizeBicubic", {}, {image, ints({5, width})}).value_or_throw()[0];
  };
  const Tensor four = resized(4), two = resized(2);
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(two.data<float>()[i], four.data<float>()[2 * i]) << i;
}

TEST(HostileShapes, DivisionByNothing) {
  const Tensor entry = Tensor::of<std::int64_t>({1, 1}, {0}), shape = longs({2});
  check_cases({{"SparseDenseCwiseDiv", {entry, ints({1}), shape, ints({0, 1})}},
               {"SparseDenseCwiseDiv", {entry, floats({1}), shape, floats({0, 1})}},
               {"SparseDenseCwiseDiv", {entry, ints({6}), shape, ints({3, 0})}, {}, Shape{1}}});
}

TEST(HostileShapes, APromisedShapeIsKept) {
  const AttrMap keys{{"group_size", 1}, {"group_key", 1}, {"instance_key", 1}, {"shape", PartialShape{3}}};
  check_cases({{"CollectiveGather", {floats({1, 2})}, keys}, {"CollectiveBcastSend", {floats({1, 2})}, keys}});
}

AttrMap parse_attrs(std::int64_t num_sparse, Types sparse, Types dense, Shapes shapes, Types ragged, Types splits) {
  return {{"num_sparse", num_sparse},
          {"sparse_types", std::move(sparse)},
          {"Tdense", std::move(dense)},
          {"dense_shapes", std::move(shapes)},
          {"ragged_value_types", std::move(ragged)},
          {"ragged_split_types", std::move(splits)}};
}

// Each list says where some of the outputs lie.
TEST(HostileShapes, ParsingByListsThatDiffer) {
  const DType f = DType::kFloat, l = DType::kInt64;
  const std::vector<std::pair<AttrMap, int>> cases{
      {parse_attrs(3, {}, {}, {}, {}, {}), 0},
      {parse_attrs(0, {f, f}, {}, {}, {}, {}), 0},
      {parse_attrs(1, {}, {f}, {PartialShape{1}}, {}, {}), 1},
      {parse_attrs(0, {}, {}, Shapes(5, PartialShape{1}), {f}, {l}), 0},
      {parse_attrs(0, {}, {}, {}, {f, f}, {l}), 0},
  };
  for (const auto& [attrs, dense] : cases) {
    Graph graph(builtin_ops()->registry());
    std::vector<Output> in;
    for (int i = 0; i < 5; ++i) in.push_back(placeholder(graph, DType::kString, PartialShape::unknown()));
    std::vector<Tensor> values{texts({""}), texts({}), texts({}), texts({}), texts({})};
    for (int i = 0; i < dense; ++i) {
      in.push_back(placeholder(graph, f, PartialShape::unknown()));
      values[3] = texts({"d"});
      values.push_back(floats({1}));
    }
    EXPECT_THROW(add_op(graph, "ParseExampleV2", in, attrs), Error);
    check_case({"ParseExampleV2", values, attrs});
  }
  AttrMap single = parse_attrs(3, {}, {}, {}, {}, {});
  single.erase("ragged_value_types");
  single.erase("ragged_split_types");
  single["sparse_keys"] = single["dense_keys"] = std::vector<std::string>{};
  Graph graph(builtin_ops()->registry());
  const Output example = placeholder(graph, DType::kString, PartialShape::scalar());
  EXPECT_THROW(add_op(graph, "ParseSingleExample", {example}, single), Error);
  check_case({"ParseSingleExample", {Tensor::scalar(std::string())}, single});
}

TEST(HostileShapes, AKeyIsParsedOnce) {
  const AttrMap attrs = parse_attrs(2, Types(2, DType::kFloat), {}, {}, {}, {});
  check_cases(
      {{"ParseExampleV2", {texts({""}), texts({}), texts({"a", "a"}), texts({}), texts({})}, attrs},
       {"ParseExampleV2", {texts({""}), texts({}), texts({"a", "b"}), texts({}), texts({})}, attrs, Shape{0, 2}}});
}

}  // namespace tutti::hostile_shapes_test

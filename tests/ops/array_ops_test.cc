#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::array_ops_test {

using Ints32 = std::vector<std::int32_t>;

Tensor i32(const Ints32& values) { return Tensor::vector<std::int32_t>(values); }
Tensor scalar(std::int32_t value) { return Tensor::scalar(value); }
Tensor i64(const std::vector<std::int64_t>& values) { return Tensor::vector<std::int64_t>(values); }
Tensor f32(const Shape& shape, const std::vector<float>& values) { return Tensor::of<float>(shape, values); }

// 1, 2, 3, ...
Tensor counting(const Shape& shape) {
  Tensor tensor(DType::kFloat, shape);
  std::iota(tensor.flat<float>().begin(), tensor.flat<float>().end(), 1.0f);
  return tensor;
}

Result<std::vector<Tensor>> try_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}

// The graph's idea of the output shapes must agree with what the kernel made, with inputs known and unknown.
void expect_inferred(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& outputs) {
  for (const bool known : {true, false}) {
    Graph graph(builtin_ops());
    std::vector<Output> values;
    for (const Tensor& input : inputs) {
      values.push_back(known ? constant(graph, input) : placeholder(graph, input.dtype()));
    }
    Node* node = add_op(graph, op, values, attrs);
    for (int i = 0; i < node->num_outputs(); ++i) {
      EXPECT_TRUE(node->output_shape(i).compatible_with(outputs[i].shape()))
          << op << " output " << i << ": inferred " << node->output_shape(i).to_string() << ", got "
          << outputs[i].shape().to_string();
    }
  }
}

std::vector<Tensor> run(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs = try_op(op, attrs, inputs).value_or_throw();
  expect_inferred(op, attrs, inputs, outputs);
  return outputs;
}

void expect_is(const Tensor& actual, const Tensor& expected) {
  EXPECT_TRUE(bitwise_equal(actual, expected)) << actual.to_string(64) << "\nexpected " << expected.to_string(64);
}

void expect_fails(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs,
                  const std::string& text) {
  const auto result = try_op(op, attrs, inputs);
  ASSERT_FALSE(result.ok()) << op << " gave " << (*result)[0].to_string();
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << result.status().to_string();
  EXPECT_NE(result.status().message().find(text), std::string::npos) << result.status().message();
}

TEST(ArrayOps, ShapeReaders) {
  const Tensor x = counting({2, 3, 0});
  expect_is(run("Shape", {}, {x})[0], i32({2, 3, 0}));
  expect_is(run("Shape", {{"out_type", DType::kInt64}}, {x})[0], i64({2, 3, 0}));
  const auto two = run("ShapeN", {}, {x, Tensor::scalar(1.0f)});
  expect_is(two[0], i32({2, 3, 0}));
  expect_is(two[1], i32(Ints32{}));
  expect_is(run("Size", {}, {counting({2, 3})})[0], scalar(6));
  expect_is(run("Rank", {}, {x})[0], scalar(3));
  expect_is(run("Size", {}, {Tensor::vector<std::string>({"a", "b"})})[0], scalar(2));
}

TEST(ArrayOps, Reshape) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(run("Reshape", {}, {x, i32({3, -1})})[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(run("Reshape", {}, {x, i64({6})})[0].raw(), x.raw()) << "elements must not move";
  EXPECT_EQ(run("Reshape", {}, {Tensor::scalar(1.0f), i32({1, 1})})[0].shape(), (Shape{1, 1}));
  EXPECT_EQ(run("Reshape", {}, {counting({1}), i32(Ints32{})})[0].shape(), Shape{});
  EXPECT_EQ(run("Reshape", {}, {counting({0, 3}), i32({-1, 3})})[0].shape(), (Shape{0, 3}));
  expect_fails("Reshape", {}, {x, i32({4, 2})},
               "Input to reshape is a tensor with 6 values, but the requested shape has 8");
  expect_fails("Reshape", {}, {x, i32({4, -1})}, "requires a multiple of 4");
  expect_fails("Reshape", {}, {x, i32({-1, -1})}, "Only one input size may be -1");
  expect_fails("Reshape", {}, {x, i32({-2, 3})}, "must be non-negative");
  // Dimensions of 0 are left out on both sides.
  EXPECT_EQ(run("Reshape", {}, {counting({0}), i32({-1, 0})})[0].shape(), (Shape{1, 0}));
  EXPECT_EQ(run("Reshape", {}, {counting({4, 0, 3}), i32({0, -1, 2})})[0].shape(), (Shape{0, 6, 2}));
  expect_fails("Reshape", {}, {x, i32({-1, 0})}, "has 0");
  expect_fails("Reshape", {}, {x, i64({std::int64_t{1} << 62, 4})}, "too many elements");
  expect_fails("Reshape", {}, {x, Tensor(DType::kInt32, {300})}, "300");
}

TEST(ArrayOps, ExpandDimsAndSqueeze) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(run("ExpandDims", {}, {x, scalar(0)})[0].shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(run("ExpandDims", {}, {x, scalar(-1)})[0].shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(run("ExpandDims", {}, {Tensor::scalar(1.0f), scalar(0)})[0].shape(), (Shape{1}));
  expect_fails("ExpandDims", {}, {x, scalar(3)}, "Tried to expand dim index 3 for tensor with 2 dimensions.");
  const Tensor y = counting({1, 2, 1});
  EXPECT_EQ(run("Squeeze", {}, {y})[0].shape(), (Shape{2}));
  EXPECT_EQ(run("Squeeze", {{"squeeze_dims", std::vector<std::int64_t>{-1}}}, {y})[0].shape(), (Shape{1, 2}));
  expect_fails("Squeeze", {{"squeeze_dims", std::vector<std::int64_t>{1}}}, {y}, "expected a dimension of 1, got 2");
}

TEST(ArrayOps, TransposeAgainstIndexArithmetic) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const int rank = 1 + static_cast<int>(random() % 4);
    std::vector<std::int64_t> dims(rank);
    Ints32 perm(rank);
    for (int d = 0; d < rank; ++d) {
      dims[d] = 1 + static_cast<std::int64_t>(random() % 5);
      perm[d] = d;
    }
    std::shuffle(perm.begin(), perm.end(), random);
    const Tensor x = counting(Shape(dims));
    const Tensor y = run("Transpose", {}, {x, i32(perm)})[0];
    std::vector<std::int64_t> at(rank, 0);  // coordinates in y
    for (const float element : y.flat<float>()) {
      std::int64_t from = 0;
      for (int d = 0; d < rank; ++d) {
        std::int64_t coordinate = 0;
        for (int i = 0; i < rank; ++i) coordinate += perm[i] == d ? at[i] : 0;
        from = from * dims[d] + coordinate;
      }
      ASSERT_EQ(element, x.data<float>()[from]);
      for (int i = rank - 1; i >= 0 && ++at[i] == y.dim(i); --i) at[i] = 0;
    }
  }
  expect_is(run("Transpose", {}, {Tensor::of<std::string>({2, 2}, {"a", "b", "c", "d"}), i32({1, 0})})[0],
            Tensor::of<std::string>({2, 2}, {"a", "c", "b", "d"}));
  EXPECT_EQ(run("Transpose", {}, {counting({0, 3}), i32({1, 0})})[0].shape(), (Shape{3, 0}));
  expect_fails("Transpose", {}, {counting({2, 3}), i32({0})}, "vector of size 2");
  expect_fails("Transpose", {}, {counting({2, 3}), i32({0, 0})}, "repeated");
  expect_fails("Transpose", {}, {counting({2, 3}), i32({0, 2})}, "out of range");
}

TEST(ArrayOps, InvertPermutation) {
  expect_is(run("InvertPermutation", {}, {i32({2, 0, 1})})[0], i32({1, 2, 0}));
  expect_is(run("InvertPermutation", {}, {i64({})})[0], i64({}));
  expect_fails("InvertPermutation", {}, {i32({0, 0})}, "0 is duplicated in the input.");
  expect_fails("InvertPermutation", {}, {i32({0, 2})}, "2 is not between 0 and 2");
}

TEST(ArrayOps, Concat) {
  const Tensor a = counting({2, 2});
  const Tensor b = f32({2, 1}, {8, 9});
  expect_is(run("ConcatV2", {}, {a, b, scalar(1)})[0], f32({2, 3}, {1, 2, 8, 3, 4, 9}));
  expect_is(run("Concat", {}, {scalar(-2), a, a})[0], f32({4, 2}, {1, 2, 3, 4, 1, 2, 3, 4}));
  expect_is(run("ConcatV2", {}, {a, Tensor(DType::kFloat, {0, 2}), a, scalar(0)})[0],
            f32({4, 2}, {1, 2, 3, 4, 1, 2, 3, 4}));
  expect_is(run("ConcatV2", {}, {Tensor::vector<std::string>({"a"}), Tensor::vector<std::string>({"b"}), scalar(0)})[0],
            Tensor::vector<std::string>({"a", "b"}));
  // Many long rows are joined another way.
  const Tensor left = counting({100, 64}), right = counting({100, 40});
  const Tensor joined = run("ConcatV2", {}, {left, Tensor(DType::kFloat, {100, 0}), right, scalar(1)})[0];
  ASSERT_EQ(joined.shape(), Shape({100, 104}));
  for (std::int64_t row = 0; row < 100; ++row) {
    expect_is(joined.slice(row, row + 1),
              run("ConcatV2", {}, {left.slice(row, row + 1), right.slice(row, row + 1), scalar(1)})[0]);
  }
  expect_fails("ConcatV2", {}, {a, b, scalar(0)}, "shape[0] = [2,2] vs. shape[1] = [2,1]");
  expect_fails("ConcatV2", {}, {a, a, scalar(2)}, "axis 2");
  expect_fails("ConcatV2", {}, {Tensor::scalar(1.0f), Tensor::scalar(1.0f), scalar(0)}, "axis 0");
  const auto offsets = run("ConcatOffset", {}, {scalar(1), i32({2, 2}), i32({2, 7}), i32({2, 5})});
  expect_is(offsets[0], i32({0, 0}));
  expect_is(offsets[1], i32({0, 2}));
  expect_is(offsets[2], i32({0, 9}));
  expect_fails("ConcatOffset", {}, {scalar(1), i32({2, 2}), i32({3, 7})}, "differs");
  expect_fails("ConcatOffset", {}, {scalar(0), i32({2}), scalar(3)}, "input 2 should be a vector");
}

TEST(ArrayOps, PackAndUnpack) {
  const Tensor a = f32({2}, {1, 2});
  const Tensor b = f32({2}, {3, 4});
  expect_is(run("Pack", {}, {a, b})[0], f32({2, 2}, {1, 2, 3, 4}));
  expect_is(run("Pack", {{"axis", -1}}, {a, b})[0], f32({2, 2}, {1, 3, 2, 4}));
  expect_is(run("Pack", {}, {Tensor::scalar(5.0f)})[0], f32({1}, {5}));
  expect_fails("Pack", {}, {a, Tensor::scalar(1.0f)}, "Shapes of all inputs must match");
  const auto columns = run("Unpack", {{"num", 3}, {"axis", 1}}, {counting({2, 3})});
  expect_is(columns[2], f32({2}, {3, 6}));
  const auto rows = run("Unpack", {{"num", 2}}, {counting({2, 3})});
  expect_is(rows[1], f32({3}, {4, 5, 6}));
  EXPECT_TRUE(run("Unpack", {{"num", 0}}, {counting({0, 3})}).empty());
  expect_fails("Unpack", {{"num", 2}}, {counting({3})}, "must equal 2");
}

TEST(ArrayOps, Splits) {
  const auto halves = run("Split", {{"num_split", 2}}, {scalar(1), counting({2, 4})});
  expect_is(halves[1], f32({2, 2}, {3, 4, 7, 8}));
  expect_fails("Split", {{"num_split", 3}}, {scalar(1), counting({2, 4})}, "evenly divide");
  const auto parts = run("SplitV", {{"num_split", 3}}, {counting({5}), i64({1, -1, 2}), scalar(0)});
  expect_is(parts[0], f32({1}, {1}));
  expect_is(parts[1], f32({2}, {2, 3}));
  expect_is(parts[2], f32({2}, {4, 5}));
  expect_fails("SplitV", {{"num_split", 2}}, {counting({5}), i64({1, 2}), scalar(0)}, "add up to 3");
  expect_fails("SplitV", {{"num_split", 2}}, {counting({5}), i64({-1, -1}), scalar(0)}, "one may be -1");
  expect_fails("SplitV", {{"num_split", 2}}, {counting({5}), i64({9, -1}), scalar(0)}, "add up to 9");
}

TEST(ArrayOps, Slice) {
  const Tensor x = counting({3, 4});
  expect_is(run("Slice", {}, {x, i32({1, 1}), i32({2, -1})})[0], f32({2, 3}, {6, 7, 8, 10, 11, 12}));
  EXPECT_EQ(run("Slice", {}, {x, i32({1, 0}), i32({1, 4})})[0].raw(), x.data<float>() + 4) << "rows need no copy";
  EXPECT_EQ(run("Slice", {}, {x, i32({3, 0}), i32({0, 4})})[0].shape(), (Shape{0, 4}));
  expect_is(run("Slice", {}, {Tensor::scalar(2.0f), i32(Ints32{}), i32(Ints32{})})[0], Tensor::scalar(2.0f));
  expect_fails("Slice", {}, {x, i32({1, 1}), i32({3, 1})}, "Expected size[0] in [0, 2], but got 3");
  expect_fails("Slice", {}, {x, i32({-1, 1}), i32({1, 1})}, "Expected begin[0] in [0, 3], but got -1");
  expect_fails("Slice", {}, {x, i32({1}), i32({1})}, "size 2");
  expect_fails("Slice", {}, {x, i64({1, 1}), i64({INT64_MAX, 1})}, "size[0]");
}

// What Python's x[begin:end:stride] takes of a dimension.
std::vector<std::int64_t> python_indices(std::int64_t size, std::optional<std::int64_t> begin,
                                         std::optional<std::int64_t> end, std::int64_t stride) {
  const auto wrap = [&](std::int64_t i) { return i < 0 ? i + size : i; };
  std::int64_t at = begin ? wrap(*begin) : (stride > 0 ? 0 : size - 1);
  std::int64_t stop = end ? wrap(*end) : (stride > 0 ? size : -1);
  if (stride > 0) {
    at = std::max<std::int64_t>(at, 0);
    stop = std::min(stop, size);
  } else {
    at = std::min(at, size - 1);
    stop = std::max<std::int64_t>(stop, -1);
  }
  std::vector<std::int64_t> indices;
  for (; stride > 0 ? at < stop : at > stop; at += stride) indices.push_back(at);
  return indices;
}

TEST(ArrayOps, StridedSliceAgainstPython) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t rows = pick(1, 6), columns = pick(1, 6);
    const Tensor x = counting({rows, columns});
    Ints32 begin, end, strides;
    std::vector<std::vector<std::int64_t>> taken;
    std::int64_t begin_mask = 0, end_mask = 0;
    for (int d = 0; d < 2; ++d) {
      begin.push_back(pick(-8, 8));
      end.push_back(pick(-8, 8));
      strides.push_back(pick(1, 3) * (random() % 2 ? 1 : -1));
      const bool from_edge = random() % 3 == 0, to_edge = random() % 3 == 0;
      begin_mask |= std::int64_t{from_edge} << d;
      end_mask |= std::int64_t{to_edge} << d;
      taken.push_back(python_indices(x.dim(d), from_edge ? std::nullopt : std::optional<std::int64_t>(begin[d]),
                                     to_edge ? std::nullopt : std::optional<std::int64_t>(end[d]), strides[d]));
    }
    const AttrMap attrs{{"begin_mask", begin_mask}, {"end_mask", end_mask}};
    const Tensor y = run("StridedSlice", attrs, {x, i32(begin), i32(end), i32(strides)})[0];
    std::vector<float> expected;
    std::vector<float> scattered(rows * columns, 0);
    for (const std::int64_t r : taken[0]) {
      for (const std::int64_t c : taken[1]) {
        expected.push_back(x.data<float>()[r * columns + c]);
        scattered[r * columns + c] = x.data<float>()[r * columns + c];
      }
    }
    const Shape shape{static_cast<std::int64_t>(taken[0].size()), static_cast<std::int64_t>(taken[1].size())};
    expect_is(y, f32(shape, expected));
    const Tensor shape_value = i32({static_cast<std::int32_t>(rows), static_cast<std::int32_t>(columns)});
    expect_is(run("StridedSliceGrad", attrs, {shape_value, i32(begin), i32(end), i32(strides), y})[0],
              f32({rows, columns}, scattered));
  }
}

TEST(ArrayOps, StridedSliceMasks) {
  const Tensor x = counting({2, 3, 4});
  // x[..., newaxis, 1]
  const AttrMap ellipsis{{"ellipsis_mask", 1}, {"new_axis_mask", 2}, {"shrink_axis_mask", 4}};
  const Tensor y = run("StridedSlice", ellipsis, {x, i32({0, 0, 1}), i32({0, 0, 2}), i32({1, 1, 1})})[0];
  expect_is(y, f32({2, 3, 1}, {2, 6, 10, 14, 18, 22}));
  // x[1, -1]
  expect_is(run("StridedSlice", {{"shrink_axis_mask", 3}}, {x, i32({1, -1}), i32({2, 0}), i32({1, 1})})[0],
            f32({4}, {21, 22, 23, 24}));
  // Row numbers of a shape vector: what clients slice most.
  expect_is(run("StridedSlice", {{"shrink_axis_mask", 1}}, {i32({7, 8}), i32({1}), i32({2}), i32({1})})[0], scalar(8));
  expect_is(run("StridedSlice", {}, {x, i32(Ints32{}), i32(Ints32{}), i32(Ints32{})})[0], x);
  expect_fails("StridedSlice", {{"shrink_axis_mask", 1}}, {x, i32({2}), i32({3}), i32({1})},
               "slice index 2 of dimension 0 out of bounds.");
  expect_fails("StridedSlice", {}, {x, i32({0}), i32({1}), i32({0})}, "strides[0] must be non-zero");
  expect_fails("StridedSlice", {{"ellipsis_mask", 3}}, {x, i32({0, 0}), i32({0, 0}), i32({1, 1})}, "Multiple ellipses");
  expect_fails("StridedSlice", {}, {x, i32({0, 0, 0, 0}), i32({1, 1, 1, 1}), i32({1, 1, 1, 1})}, "Index out of range");
  expect_fails("StridedSlice", {}, {x, i32({0}), i32({1, 1}), i32({1})},
               "equal size tensors, but got shapes [1], [2], and [1]");
  expect_fails("StridedSliceGrad", {}, {i32({3}), i32({0}), i32({2}), i32({1}), counting({3})}, "instead of [2]");
}

TEST(ArrayOps, PadTileBroadcastReverse) {
  const Tensor x = counting({1, 2});
  const Tensor paddings = Tensor::of<std::int32_t>({2, 2}, {1, 0, 0, 2});
  expect_is(run("Pad", {}, {x, paddings})[0], f32({2, 4}, {0, 0, 0, 0, 1, 2, 0, 0}));
  expect_is(run("PadV2", {}, {x, paddings, Tensor::scalar(9.0f)})[0], f32({2, 4}, {9, 9, 9, 9, 1, 2, 9, 9}));
  expect_is(run("Pad", {}, {counting({0}), Tensor::of<std::int32_t>({1, 2}, {1, 1})})[0], f32({2}, {0, 0}));
  expect_fails("Pad", {}, {x, Tensor::of<std::int32_t>({2, 2}, {-1, 0, 0, 2})}, "non-negative: -1 0");
  expect_fails("Pad", {}, {x, i32({1, 2})}, "paddings");

  expect_is(run("Tile", {}, {counting({2, 2}), i32({2, 1})})[0], f32({4, 2}, {1, 2, 3, 4, 1, 2, 3, 4}));
  expect_is(run("Tile", {}, {counting({2, 1}), i32({1, 3})})[0], f32({2, 3}, {1, 1, 1, 2, 2, 2}));
  expect_is(run("Tile", {}, {counting({2}), i32({3})})[0], f32({6}, {1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(run("Tile", {}, {counting({2}), i32({0})})[0].shape(), (Shape{0}));
  expect_fails("Tile", {}, {counting({2}), i32({-1})}, "Expected multiples[0] >= 0, but got -1");
  expect_fails("Tile", {}, {counting({2}), i64({INT64_MAX})}, "too large");
  expect_fails("Tile", {}, {counting({2}), Tensor::scalar(2)}, "Expected multiples to be 1-D");

  expect_is(run("BroadcastTo", {}, {counting({2, 1}), i32({2, 2, 3})})[0],
            f32({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  expect_is(run("BroadcastTo", {}, {Tensor::scalar(4.0f), i32({2})})[0], f32({2}, {4, 4}));
  EXPECT_EQ(run("BroadcastTo", {}, {counting({1}), i32({0})})[0].shape(), (Shape{0}));
  expect_fails("BroadcastTo", {}, {counting({2}), i32({3})}, "Incompatible shapes: [2] vs. [3]");

  expect_is(run("ReverseV2", {}, {counting({2, 3}), i32({1})})[0], f32({2, 3}, {3, 2, 1, 6, 5, 4}));
  expect_is(run("ReverseV2", {}, {counting({2, 3}), i32({-2, 1})})[0], f32({2, 3}, {6, 5, 4, 3, 2, 1}));
  expect_fails("ReverseV2", {}, {counting({2, 3}), i32({1, -1})}, "specified more than once");
  expect_fails("ReverseV2", {}, {counting({2, 3}), Tensor::scalar<std::int32_t>(1)}, "must be 1-dimension, not 0");
  expect_is(run("ReverseV2", {}, {f32({1, 0}, {}), i32({1, -1})})[0], f32({1, 0}, {}));
}

TEST(ArrayOps, BroadcastArithmetic) {
  expect_is(run("BroadcastArgs", {}, {i32({2, 1}), i32({3})})[0], i32({2, 3}));
  expect_is(run("BroadcastArgs", {}, {i32(Ints32{}), i32({3})})[0], i32({3}));
  expect_fails("BroadcastArgs", {}, {i32({2}), i32({3})}, "Incompatible shapes: [2] vs. [3]");
  // Taken from TensorFlow.
  const std::vector<std::vector<Ints32>> cases = {
      {{1, 2}, {1, 2}, {}, {}},
      {{1, 3, 1}, {3, 1}, {0, 2}, {0, 2}},
      {{}, {2}, {0}, {}},
      {{2, 1}, {1, 1}, {1}, {0, 1}},
      {{1}, {}, {0}, {0}},
      {{2, 3}, {3}, {}, {0}},
      {{1, 1}, {1}, {0, 1}, {0, 1}},
  };
  for (const auto& c : cases) {
    const auto axes = run("BroadcastGradientArgs", {}, {i32(c[0]), i32(c[1])});
    expect_is(axes[0], i32(c[2]));
    expect_is(axes[1], i32(c[3]));
  }
}

TEST(ArrayOps, Fills) {
  expect_is(run("Fill", {}, {i32({2}), Tensor::scalar(3.0)})[0], Tensor::vector<double>({3, 3}));
  expect_is(run("Fill", {}, {i32(Ints32{}), Tensor::scalar(std::string("x"))})[0], Tensor::scalar(std::string("x")));
  expect_fails("Fill", {}, {i32({-1}), Tensor::scalar(3.0)}, "negative");
  expect_is(run("Fill", {}, {i32({2}), i32({3})})[0], i32({3, 3}));  // one element in a vector will do
  expect_fails("Fill", {}, {i32({1}), i32({3, 4})}, "value must be a scalar");
  expect_fails("Fill", {}, {i64({INT64_MAX, 16}), Tensor::scalar(3.0)}, "64 bits");
  const auto huge = try_op("Fill", {}, {i64({std::int64_t{1} << 45, 1024}), Tensor::scalar(3.0)});
  EXPECT_EQ(huge.status().code(), Code::kResourceExhausted) << huge.status().to_string();
  expect_is(run("ZerosLike", {}, {counting({2})})[0], f32({2}, {0, 0}));
  expect_is(run("ZerosLike", {}, {Tensor::vector<std::string>({"x"})})[0], Tensor::vector<std::string>({""}));
  expect_is(run("OnesLike", {}, {Tensor::vector<Half>({Half(3.0f)})})[0], Tensor::vector<Half>({Half(1.0f)}));
  expect_is(run("OnesLike", {}, {Tensor::vector<bool>({false})})[0], Tensor::vector<bool>({true}));
}

TEST(ArrayOps, RangeAndLinSpace) {
  expect_is(run("Range", {}, {scalar(1), scalar(8), scalar(3)})[0], i32({1, 4, 7}));
  expect_is(run("Range", {}, {scalar(3), scalar(0), scalar(-1)})[0], i32({3, 2, 1}));
  EXPECT_EQ(run("Range", {}, {scalar(3), scalar(3), scalar(1)})[0].num_elements(), 0);
  const Tensor steps = run("Range", {}, {Tensor::scalar(0.0f), Tensor::scalar(1000.0f), Tensor::scalar(0.1f)})[0];
  EXPECT_EQ(steps.num_elements(), 10000);
  EXPECT_EQ(steps.data<float>()[9999], 999.9f) << "rounding errors add up";
  expect_fails("Range", {}, {scalar(3), scalar(0), scalar(1)}, "Requires start <= limit when delta > 0: 3/0");
  expect_fails("Range", {}, {scalar(0), scalar(3), scalar(-1)}, "Requires start >= limit when delta < 0: 0/3");
  expect_fails("Range", {}, {scalar(0), scalar(3), scalar(0)}, "Requires delta != 0: 0");
  expect_fails("Range", {}, {Tensor::scalar(0.0), Tensor::scalar(1e300), Tensor::scalar(1e-9)}, "to fit");
  const Tensor lowest = Tensor::scalar(INT64_MIN), highest = Tensor::scalar(INT64_MAX);
  expect_fails("Range", {}, {lowest, highest, Tensor::scalar(std::int64_t{1})}, "to fit");
  expect_is(run("LinSpace", {}, {Tensor::scalar(1.0), Tensor::scalar(2.0), scalar(5)})[0],
            Tensor::vector<double>({1, 1.25, 1.5, 1.75, 2}));
  expect_is(run("LinSpace", {}, {Tensor::scalar(1.0), Tensor::scalar(2.0), scalar(1)})[0], Tensor::vector<double>({1}));
  expect_fails("LinSpace", {}, {Tensor::scalar(1.0), Tensor::scalar(2.0), scalar(0)}, "Requires num > 0: 0");
}

TEST(ArrayOps, OneHot) {
  const Tensor on = Tensor::scalar(1.0f), off = Tensor::scalar(0.0f);
  expect_is(run("OneHot", {}, {i64({1, -1, 3}), scalar(3), on, off})[0], f32({3, 3}, {0, 1, 0, 0, 0, 0, 0, 0, 0}));
  expect_is(run("OneHot", {{"axis", 0}}, {i32({1, 0}), scalar(3), on, off})[0], f32({3, 2}, {0, 1, 1, 0, 0, 0}));
  expect_is(run("OneHot", {}, {Tensor::scalar(std::uint8_t{2}), scalar(3), on, off})[0], f32({3}, {0, 0, 1}));
  EXPECT_EQ(run("OneHot", {}, {i64({1}), scalar(0), on, off})[0].shape(), (Shape{1, 0}));
  expect_fails("OneHot", {}, {i64({1}), scalar(-1), on, off}, "depth must be non-negative, got: -1");
}

TEST(ArrayOps, Gathers) {
  const Tensor params = counting({3, 2});
  expect_is(run("Gather", {}, {params, i32({2, 0})})[0], f32({2, 2}, {5, 6, 1, 2}));
  expect_is(run("GatherV2", {}, {params, scalar(1), scalar(0)})[0], f32({2}, {3, 4}));
  expect_is(run("GatherV2", {}, {params, Tensor::of<std::int64_t>({1, 2}, {1, 1}), scalar(-1)})[0],
            f32({3, 1, 2}, {2, 2, 4, 4, 6, 6}));
  expect_is(run("GatherV2", {{"batch_dims", 1}}, {params, Tensor::of<std::int32_t>({3, 1}, {1, 0, 1}), scalar(1)})[0],
            f32({3, 1}, {2, 3, 6}));
  EXPECT_EQ(run("GatherV2", {}, {params, i32(Ints32{}), scalar(0)})[0].shape(), (Shape{0, 2}));
  EXPECT_EQ(run("GatherV2", {}, {counting({0, 2}), i32(Ints32{}), scalar(0)})[0].shape(), (Shape{0, 2}));
  expect_is(run("Gather", {}, {Tensor::vector<std::string>({"a", "b"}), i32({1})})[0],
            Tensor::vector<std::string>({"b"}));
  expect_fails("Gather", {}, {params, i32({0, 3})}, "indices[1] = 3 is not in [0, 3)");
  expect_fails("Gather", {}, {params, scalar(-1)}, "indices = -1 is not in [0, 3)");
  expect_fails("Gather", {}, {params, Tensor::of<std::int32_t>({2, 2}, {0, 0, 9, 0})},
               "indices[1,0] = 9 is not in [0, 3)");
  expect_fails("Gather", {}, {Tensor::scalar(1.0f), scalar(0)}, "at least 1 dimensional");
}

TEST(ArrayOps, LargeGatherOnSeveralThreadsIsTheSame) {
  const Tensor params = counting({100, 64});
  Tensor indices(DType::kInt32, {5000});
  for (int i = 0; i < 5000; ++i) indices.data<std::int32_t>()[i] = i * 37 % 100;
  const Tensor rows = run("Gather", {}, {params, indices})[0];
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(rows.data<float>()[i * 64 + 63], params.data<float>()[(i * 37 % 100) * 64 + 63]);
  }
}

TEST(ArrayOps, GatherNdAndScatterNd) {
  const Tensor params = counting({2, 3});
  const Tensor cells = Tensor::of<std::int32_t>({2, 2}, {0, 2, 1, 0});
  expect_is(run("GatherNd", {}, {params, cells})[0], f32({2}, {3, 4}));
  expect_is(run("GatherNd", {}, {params, Tensor::of<std::int32_t>({1, 1}, {1})})[0], f32({1, 3}, {4, 5, 6}));
  expect_is(run("GatherNd", {}, {params, Tensor(DType::kInt32, {2, 0})})[0],
            f32({2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  expect_fails("GatherNd", {}, {params, Tensor::of<std::int32_t>({1, 2}, {0, 3})},
               "indices[0] = [0, 3] does not index into shape [2,3]");
  expect_is(run("ScatterNd", {}, {Tensor::of<std::int32_t>({3, 1}, {1, 3, 1}), f32({3}, {1, 2, 4}), i32({4})})[0],
            f32({4}, {0, 5, 0, 2}));
  expect_fails("ScatterNd", {}, {Tensor::of<std::int32_t>({1, 1}, {4}), f32({1}, {1}), i32({4})}, "does not index");
  expect_fails("ScatterNd", {}, {Tensor::of<std::int32_t>({1, 1}, {0}), f32({2}, {1, 2}), i32({4})}, "do not fit");
}

TEST(ArrayOps, WhereAndUnique) {
  expect_is(run("Where", {}, {Tensor::of<bool>({2, 2}, {false, true, true, false})})[0],
            Tensor::of<std::int64_t>({2, 2}, {0, 1, 1, 0}));
  expect_is(run("Where", {}, {f32({3}, {-0.0f, 2, 0})})[0], Tensor::of<std::int64_t>({1, 1}, {1}));
  const auto found = run("Unique", {}, {i64({7, 3, 7, 1})});
  expect_is(found[0], i64({7, 3, 1}));
  expect_is(found[1], i32({0, 1, 0, 2}));
  expect_is(run("Unique", {}, {Tensor::vector<std::string>({"b", "a", "b"})})[0],
            Tensor::vector<std::string>({"b", "a"}));
  EXPECT_EQ(run("Unique", {}, {i64({})})[0].num_elements(), 0);
  expect_fails("Unique", {}, {Tensor(DType::kInt64, {2, 2})}, "1D vector");
}

TEST(ArrayOps, PartitionAndStitch) {
  const auto parts = run("DynamicPartition", {{"num_partitions", 3}}, {counting({3, 2}), i32({1, 0, 1})});
  expect_is(parts[0], f32({1, 2}, {3, 4}));
  expect_is(parts[1], f32({2, 2}, {1, 2, 5, 6}));
  EXPECT_EQ(parts[2].shape(), (Shape{0, 2}));
  expect_fails("DynamicPartition", {{"num_partitions", 2}}, {counting({2}), i32({0, 2})},
               "partitions[1] = 2 is not in [0, 2)");
  expect_fails("DynamicPartition", {{"num_partitions", 2}}, {counting({2}), i32({0})}, "must start with");
  for (const char* op : {"DynamicStitch", "ParallelDynamicStitch"}) {
    expect_is(run(op, {{"N", 2}}, {i32({0, 3}), scalar(1), f32({2, 1}, {5, 6}), f32({1}, {7})})[0],
              f32({4, 1}, {5, 7, 0, 6}));
    EXPECT_EQ(run(op, {{"N", 1}}, {i32(Ints32{}), counting({0, 2})})[0].shape(), (Shape{0, 2}));
  }
  expect_is(run("DynamicStitch", {{"N", 2}}, {scalar(0), scalar(0), Tensor::scalar(1.0f), Tensor::scalar(2.0f)})[0],
            f32({1}, {2}));
  expect_fails("DynamicStitch", {{"N", 1}}, {i32({-1}), counting({1})}, "negative");
  expect_fails("DynamicStitch", {{"N", 2}}, {scalar(0), scalar(1), counting({1}), counting({2})},
               "data[1].shape = [2]");
}

TEST(ArrayOps, Segments) {
  const Tensor data = counting({3, 2});
  expect_is(run("UnsortedSegmentSum", {}, {data, i32({2, -1, 2}), scalar(3)})[0], f32({3, 2}, {0, 0, 0, 0, 6, 8}));
  expect_is(run("UnsortedSegmentSum", {}, {data, Tensor::of<std::int32_t>({3, 2}, {0, 1, 0, 1, 0, 1}), scalar(2)})[0],
            f32({2}, {9, 12}));
  EXPECT_EQ(run("UnsortedSegmentSum", {}, {counting({0, 2}), i32(Ints32{}), scalar(2)})[0].shape(), (Shape{2, 2}));
  expect_fails("UnsortedSegmentSum", {}, {data, i32({0, 3, 0}), scalar(3)},
               "segment_ids[1] = 3 is out of range [0, 3)");
  expect_fails("UnsortedSegmentSum", {}, {data, i32({0}), scalar(3)}, "does not start with");
  expect_is(run("SegmentSum", {}, {data, i32({0, 0, 2})})[0], f32({3, 2}, {4, 6, 0, 0, 5, 6}));
  EXPECT_EQ(run("SegmentSum", {}, {counting({0, 2}), i32(Ints32{})})[0].shape(), (Shape{0, 2}));
  expect_fails("SegmentSum", {}, {data, i32({0, 2, 1})}, "not decrease");
}

TEST(ArrayOps, Cumsum) {
  const Tensor x = counting({2, 3});
  expect_is(run("Cumsum", {}, {x, scalar(1)})[0], f32({2, 3}, {1, 3, 6, 4, 9, 15}));
  expect_is(run("Cumsum", {{"exclusive", true}}, {x, scalar(0)})[0], f32({2, 3}, {0, 0, 0, 1, 2, 3}));
  expect_is(run("Cumsum", {{"reverse", true}}, {x, scalar(-1)})[0], f32({2, 3}, {6, 5, 3, 15, 11, 6}));
  expect_is(run("Cumsum", {{"reverse", true}, {"exclusive", true}}, {x, scalar(-1)})[0],
            f32({2, 3}, {5, 3, 0, 11, 6, 0}));
  expect_fails("Cumsum", {}, {x, scalar(2)}, "axis 2");
}

TEST(ArrayOps, EnsureShapeAndBitcast) {
  const Tensor x = counting({2, 3});
  expect_is(run("EnsureShape", {{"shape", PartialShape{-1, 3}}}, {x})[0], x);
  expect_fails("EnsureShape", {{"shape", PartialShape{2, 2}}}, {x}, "not compatible");
  const Tensor bits = run("Bitcast", {{"type", DType::kInt32}}, {f32({1}, {1.0f})})[0];
  expect_is(bits, i32({0x3f800000}));
  EXPECT_EQ(run("Bitcast", {{"type", DType::kUint8}}, {x})[0].shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(run("Bitcast", {{"type", DType::kDouble}}, {counting({3, 2})})[0].shape(), (Shape{3}));
  expect_fails("Bitcast", {{"type", DType::kDouble}}, {x}, "must be 2");
}

TEST(ArrayOps, ShapeRulesRefuseWhatCannotBe) {
  Graph graph(builtin_ops());
  const auto fails = [&](const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
    EXPECT_THROW(add_op(graph, op, std::move(inputs), std::move(attrs)), Error) << op;
  };
  Output x = placeholder(graph, DType::kFloat, {2, 3});
  const auto ints = [&](const Ints32& values) { return constant(graph, i32(values)); };
  fails("Reshape", {x, ints({7})});
  fails("Squeeze", {x}, {{"squeeze_dims", std::vector<std::int64_t>{0}}});
  fails("Transpose", {x, ints({0})});
  fails("ConcatV2", {x, placeholder(graph, DType::kFloat, {3, 3}), constant(graph, scalar(1))});
  fails("Pack", {x, placeholder(graph, DType::kFloat, {3, 3})});
  fails("Unpack", {x}, {{"num", 3}});
  fails("Slice", {x, ints({0, 0}), ints({3, 1})});
  fails("Tile", {x, ints({1})});
  fails("BroadcastTo", {x, ints({2, 4})});
  fails("GatherNd", {x, placeholder(graph, DType::kInt32, {1, 3})});
  fails("EnsureShape", {x}, {{"shape", PartialShape{2, 4}}});
  fails("ExpandDims", {x, constant(graph, scalar(5))});
}

TEST(ArrayOps, InferredShapesUseWhatIsKnown) {
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, 784});
  EXPECT_EQ(reshape(x, {-1, 28, 28}).shape(), (PartialShape{-1, 28, 28}));
  EXPECT_EQ(reshape(x, stack({strided_slice(shape_of(x), {0}, {1}, {1}, {.shrink_axis_mask = 1}),
                              constant(graph, scalar(784))}))
                .shape()
                .to_string(),
            "[?,784]");
  EXPECT_EQ(concat({x, x}, 1).shape(), (PartialShape{-1, 1568}));
  EXPECT_EQ(expand_dims(x, 0).shape(), (PartialShape{1, -1, 784}));
  EXPECT_EQ(transpose(x).shape(), (PartialShape{784, -1}));
  EXPECT_EQ(gather(x, placeholder(graph, DType::kInt32, {5}), 1).shape(), (PartialShape{-1, 5}));
  EXPECT_EQ(one_hot(placeholder(graph, DType::kInt32, {-1}), 10).shape(), (PartialShape{-1, 10}));
  EXPECT_EQ(unstack(placeholder(graph, DType::kFloat, {3, -1})).size(), 3u);
  EXPECT_EQ(slice(x, {0, 4}, {-1, 10}).shape(), (PartialShape{-1, 10}));
  EXPECT_EQ(pad(x, {{0, 0}, {1, 2}}).shape(), (PartialShape{-1, 787}));
  EXPECT_EQ(range(graph, 2, 11, 4).shape(), (PartialShape{3}));
}

}  // namespace tutti::array_ops_test

// Diagonals, bands, top-k and functional scatters by hand, and what they refuse. Random cases are compared with
// TensorFlow's in tests/interop/drawn.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::layout_ops_test {

Result<std::vector<Tensor>> try_op(const std::string& op, const std::vector<Tensor>& inputs,
                                   const AttrMap& attrs = {}) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}
Tensor floats(const Shape& shape, const std::vector<float>& values) { return Tensor::of<float>(shape, values); }
Tensor ints(const Shape& shape, const std::vector<std::int32_t>& values) {
  return Tensor::of<std::int32_t>(shape, values);
}
Tensor scalar(std::int32_t value) { return Tensor::scalar(value); }

void expect_refused(const Result<std::vector<Tensor>>& result, const std::string& word) {
  ASSERT_FALSE(result.ok()) << word;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
}

const Tensor kMatrix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Diagonals, ByHand) {
  const Tensor zero = Tensor::scalar(0.0f), nine = Tensor::scalar(9.0f);
  EXPECT_TRUE(bitwise_equal((*try_op("MatrixDiagPart", {kMatrix}))[0], floats({2}, {1, 5})));
  // Superdiagonals at the right end of their rows, subdiagonals at the left.
  EXPECT_TRUE(bitwise_equal((*try_op("MatrixDiagPartV3", {kMatrix, ints({2}, {-1, 2}), nine}))[0],
                            floats({4, 2}, {9, 3, 2, 6, 1, 5, 4, 9})));
  EXPECT_TRUE(
      bitwise_equal((*try_op("MatrixDiagPartV3", {kMatrix, ints({2}, {-1, 2}), nine}, {{"align", "LEFT_RIGHT"}}))[0],
                    floats({4, 2}, {3, 9, 2, 6, 1, 5, 9, 4})));
  EXPECT_TRUE(bitwise_equal((*try_op("MatrixDiagPartV2", {kMatrix, ints({2}, {-1, 2}), nine}))[0],
                            floats({4, 2}, {3, 9, 2, 6, 1, 5, 4, 9})));
  EXPECT_TRUE(
      bitwise_equal((*try_op("MatrixDiagV3", {floats({2}, {7, 8}), scalar(1), scalar(-1), scalar(-1), zero}))[0],
                    floats({3, 3}, {0, 7, 0, 0, 0, 8, 0, 0, 0})));
  EXPECT_TRUE(
      bitwise_equal((*try_op("MatrixSetDiag", {kMatrix, floats({2}, {7, 8})}))[0], floats({2, 3}, {7, 2, 3, 4, 8, 6})));
  EXPECT_TRUE(bitwise_equal((*try_op("MatrixBandPart", {kMatrix, scalar(0), scalar(1)}))[0],
                            floats({2, 3}, {1, 2, 0, 0, 5, 6})));
  EXPECT_TRUE(bitwise_equal((*try_op("Diag", {floats({2}, {7, 8})}))[0], floats({2, 2}, {7, 0, 0, 8})));
  EXPECT_TRUE(bitwise_equal((*try_op("DiagPart", {floats({2, 2}, {1, 2, 3, 4})}))[0], floats({2}, {1, 4})));
}

TEST(Diagonals, Refusals) {
  const Tensor zero = Tensor::scalar(0.0f), open = scalar(-1), two = floats({2}, {7, 8});
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, scalar(3), zero}), "out of bound");
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, scalar(-2), zero}), "out of bound");
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, ints({2}, {1, 0}), zero}), "larger");
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, ints({3}, {0, 0, 0}), zero}), "one or two");
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, ints({0}, {}), zero}), "one or two");
  expect_refused(try_op("MatrixDiagPartV3", {kMatrix, scalar(0), two}), "padding_value");
  expect_refused(try_op("MatrixDiagPart", {two}), "");
  expect_refused(try_op("MatrixDiagV3", {two, scalar(0), scalar(1), open, zero}), "too small");
  expect_refused(try_op("MatrixDiagV3", {two, scalar(0), scalar(5), scalar(5), zero}), "consistent");
  expect_refused(try_op("MatrixDiagV3", {two, ints({2}, {0, 1}), open, open, zero}), "");
  expect_refused(try_op("MatrixDiagV3", {kMatrix, ints({2}, {0, 2}), open, open, zero}), "number of diagonals");
  const std::int32_t most = std::numeric_limits<std::int32_t>::max(), least = std::numeric_limits<std::int32_t>::min();
  expect_refused(try_op("MatrixDiagV3", {two, ints({2}, {least, most}), open, open, zero}), "");
  EXPECT_FALSE(try_op("MatrixDiagV3", {two, scalar(most), open, open, zero}).ok());  // 2^31 by 2^31 elements
  expect_refused(try_op("MatrixSetDiag", {kMatrix, floats({3}, {1, 2, 3})}), "");
  expect_refused(try_op("MatrixBandPart", {kMatrix, scalar(3), scalar(0)}), "num_lower");
  expect_refused(try_op("MatrixBandPart", {kMatrix, scalar(0), scalar(4)}), "num_upper");
  expect_refused(try_op("DiagPart", {kMatrix}), "");
  expect_refused(try_op("DiagPart", {two}), "even");
}

TEST(TopK, LargestFirstAndEqualOnesInOrder) {
  const auto got = *try_op("TopKV2", {floats({2, 4}, {1, 3, 3, 2, 5, 0, -1, 5}), scalar(3)});
  EXPECT_TRUE(bitwise_equal(got[0], floats({2, 3}, {3, 3, 2, 5, 5, 0})));
  EXPECT_TRUE(bitwise_equal(got[1], ints({2, 3}, {1, 2, 3, 0, 3, 1})));
  expect_refused(try_op("TopKV2", {kMatrix, scalar(4)}), "k");
  expect_refused(try_op("TopKV2", {kMatrix, scalar(-1)}), "k >= 0");
  expect_refused(try_op("TopKV2", {Tensor::scalar(1.0f), scalar(0)}), "");
  const Tensor long_row(DType::kFloat, {40000});
  expect_refused(try_op("TopKV2", {long_row, scalar(1)}, {{"index_type", DType::kInt16}}), "fit");
}

// Both ways of picking, on several threads, against sorting everything.
TEST(TopK, AgreesWithSorting) {
  std::mt19937 random(3);
  for (const std::int64_t k : {1, 7, 64, 65, 700, 1000}) {
    SCOPED_TRACE(k);
    Tensor x(DType::kFloat, {70, 1000});
    for (float& element : x.flat<float>()) element = static_cast<float>(random() % 300);
    x.data<float>()[5] = std::nanf("");
    const auto got = *try_op("TopKV2", {x, Tensor::scalar(k)}, {{"Tk", DType::kInt64}});
    for (std::int64_t row = 0; row < 70; ++row) {
      const float* values = x.data<float>() + row * 1000;
      std::vector<std::int32_t> order(1000);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return std::isnan(values[a]) ? !std::isnan(values[b]) : values[a] > values[b];
      });
      for (std::int64_t i = 0; i < k; ++i) {
        ASSERT_EQ(got[1].data<std::int32_t>()[row * k + i], order[static_cast<std::size_t>(i)]) << row << " " << i;
      }
    }
  }
}

TEST(TensorScatter, ByHandAndRefusals) {
  const Tensor x = floats({3}, {1, 2, 3}), at = ints({2, 1}, {2, 0}), updates = floats({2}, {10, 0});
  EXPECT_TRUE(bitwise_equal((*try_op("TensorScatterUpdate", {x, at, updates}))[0], floats({3}, {0, 2, 10})));
  EXPECT_TRUE(bitwise_equal((*try_op("TensorScatterAdd", {x, at, updates}))[0], floats({3}, {1, 2, 13})));
  EXPECT_TRUE(bitwise_equal((*try_op("TensorScatterSub", {x, at, updates}))[0], floats({3}, {1, 2, -7})));
  EXPECT_TRUE(bitwise_equal((*try_op("TensorScatterMin", {x, at, updates}))[0], floats({3}, {0, 2, 3})));
  EXPECT_TRUE(bitwise_equal((*try_op("TensorScatterMax", {x, at, updates}))[0], floats({3}, {1, 2, 10})));
  expect_refused(try_op("TensorScatterAdd", {x, ints({2, 1}, {3, 0}), updates}), "[3]");
  expect_refused(try_op("TensorScatterAdd", {x, ints({2, 1}, {-1, 0}), updates}), "-1");
  expect_refused(try_op("TensorScatterAdd", {x, at, floats({3}, {1, 2, 3})}), "[3]");
  expect_refused(try_op("TensorScatterAdd", {x, ints({2, 2}, {0, 0, 0, 0}), updates}), "");
}

TEST(Sequences, ByHandAndRefusals) {
  const AttrMap reflect{{"mode", "REFLECT"}}, symmetric{{"mode", "SYMMETRIC"}};
  const Tensor x = floats({3}, {1, 2, 3});
  EXPECT_TRUE(
      bitwise_equal((*try_op("MirrorPad", {x, ints({1, 2}, {2, 1})}, reflect))[0], floats({6}, {3, 2, 1, 2, 3, 2})));
  EXPECT_TRUE(bitwise_equal((*try_op("MirrorPad", {x, ints({1, 2}, {2, 3})}, symmetric))[0],
                            floats({8}, {2, 1, 1, 2, 3, 3, 2, 1})));
  EXPECT_TRUE(bitwise_equal(
      (*try_op("MirrorPadGrad", {floats({6}, {1, 10, 100, 1000, 1e4, 1e5}), ints({1, 2}, {2, 1})}, reflect))[0],
      floats({3}, {100, 101010, 10001})));
  expect_refused(try_op("MirrorPad", {x, ints({1, 2}, {3, 0})}, reflect), "3");
  expect_refused(try_op("MirrorPad", {x, ints({1, 2}, {4, 0})}, symmetric), "4");
  expect_refused(try_op("MirrorPad", {x, ints({1, 2}, {-1, 0})}, symmetric), "");
  expect_refused(try_op("MirrorPad", {x, ints({2, 2}, {0, 0, 0, 0})}, symmetric), "");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor huge = Tensor::of<std::int64_t>({1, 2}, {most, most});
  expect_refused(try_op("MirrorPad", {x, huge}, symmetric), "");
  expect_refused(try_op("MirrorPadGrad", {x, huge}, symmetric), "");
  const Tensor lengths = Tensor::vector<std::int64_t>({1, 4});
  expect_refused(try_op("ReverseSequence", {kMatrix, lengths}, {{"seq_dim", 1}}), "seq_lengths(1)");
  expect_refused(try_op("ReverseSequence", {kMatrix, lengths}, {{"seq_dim", 0}}), "");
  expect_refused(try_op("ReverseSequence", {kMatrix, lengths}, {{"seq_dim", -1}}), "seq_dim");
  expect_refused(try_op("ReverseSequence", {kMatrix, lengths}, {{"seq_dim", 1}, {"batch_dim", 2}}), "batch_dim");
  const Tensor least = Tensor::scalar(std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(try_op("Roll", {x, least, scalar(0)}).ok());
  expect_refused(try_op("Roll", {x, scalar(1), scalar(1)}), "axis");
}

TEST(Unique, SlicesAndCounts) {
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 1, 2}), axis = Tensor::vector<std::int64_t>({0});
  const auto got = *try_op("UniqueWithCountsV2", {x, axis});
  EXPECT_TRUE(bitwise_equal(got[0], floats({2, 2}, {1, 2, 3, 4})));
  EXPECT_TRUE(bitwise_equal(got[1], ints({3}, {0, 1, 0})));
  EXPECT_TRUE(bitwise_equal(got[2], ints({2}, {2, 1})));
  // Both zeros are one value; a NaN is none.
  const auto odd = *try_op("UniqueWithCounts", {floats({4}, {0.0f, -0.0f, std::nanf(""), std::nanf("")})});
  EXPECT_TRUE(bitwise_equal(odd[1], ints({4}, {0, 0, 1, 2})));
  expect_refused(try_op("UniqueV2", {x, Tensor::vector<std::int64_t>({2})}), "axis");
  expect_refused(try_op("UniqueV2", {x, Tensor::vector<std::int64_t>({0, 1})}), "");
  expect_refused(try_op("UniqueWithCounts", {x}), "");
}

TEST(Patches, Refusals) {
  using List = std::vector<std::int64_t>;
  const Tensor image(DType::kFloat, {1, 3, 3, 2});
  const auto attrs = [](const List& sizes) {
    return AttrMap{{"ksizes", sizes}, {"strides", List{1, 1, 1, 1}}, {"rates", List{1, 1, 1, 1}}, {"padding", "VALID"}};
  };
  EXPECT_EQ((*try_op("ExtractImagePatches", {image}, attrs({1, 2, 2, 1})))[0].shape(), Shape({1, 2, 2, 8}));
  expect_refused(try_op("ExtractImagePatches", {image}, attrs({1, 0, 2, 1})), "ksizes");
  expect_refused(try_op("ExtractImagePatches", {image}, attrs({1, 5, 2, 1})), "negative");
  expect_refused(try_op("ExtractImagePatches", {kMatrix}, attrs({1, 2, 2, 1})), "");
}

}  // namespace tutti::layout_ops_test

// What the comparison with TensorFlow cannot draw: sizes and indices from a hostile sender.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/graph_eval.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/sparse.h"

namespace tutti::sparse_ops_test {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

class SparseOpsTest : public ::testing::Test {
 protected:
  Output longs(std::vector<std::int64_t> values) { return feed(Tensor::vector<std::int64_t>(values)); }
  Output matrix(std::int64_t columns, std::vector<std::int64_t> values) {
    return feed(Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(values.size()) / columns, columns}, values));
  }
  Output floats(std::vector<float> values) { return feed(Tensor::vector<float>(values)); }
  // Through a placeholder: nothing is known before the run.
  Output feed(Tensor value) {
    Output output = placeholder(graph_, value.dtype());
    feeds_.emplace_back(output, std::move(value));
    return output;
  }
  Result<std::vector<Tensor>> values(const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
    Node* node = add_op(graph_, op, std::move(inputs), std::move(attrs));
    std::vector<Output> outputs;
    for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
    return evaluator_.try_run(graph_, feeds_, outputs);
  }
  Status run(const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
    return values(op, std::move(inputs), std::move(attrs)).status();
  }
  void refused(const Status& status) {
    EXPECT_TRUE(status.code() == Code::kInvalidArgument || status.code() == Code::kResourceExhausted)
        << status.to_string();
  }

  Graph graph_{builtin_ops()};
  testing::GraphEvaluator evaluator_;
  testing::GraphEvaluator::Feeds feeds_;
};

TEST_F(SparseOpsTest, HugeShapes) {
  Output places = matrix(2, {0, 0}), values = floats({1}), shape = longs({kHuge, kHuge});
  for (const char* op : {"SparseReorder", "SparseFillEmptyRows", "SparseSoftmax"}) {
    std::vector<Output> inputs{places, values, shape};
    if (std::string(op) == "SparseFillEmptyRows") inputs.push_back(feed(Tensor::scalar(0.0f)));
    refused(run(op, inputs));
  }
  refused(run("SparseReduceSum", {places, values, shape, feed(Tensor::vector<std::int32_t>({0}))}));
  refused(run("SparseReshape", {places, shape, longs({-1, 2})}));
  refused(run("SparseReshape", {places, longs({2, 2}), longs({kHuge, kHuge})}));
  refused(run("SparseSlice", {places, values, shape, longs({0, 0}), longs({1, 1})}));
  refused(run("SparseConcat", {places, places, values, values, shape, shape}, {{"concat_dim", std::int64_t{0}}}));
}

TEST_F(SparseOpsTest, ConcatenatedSizesThatOverflow) {
  Output places = matrix(1, {0}), values = floats({1}), shape = longs({kHuge});
  refused(run("SparseConcat", {places, places, values, values, shape, shape}, {{"concat_dim", std::int64_t{0}}}));
}

TEST_F(SparseOpsTest, NegativeSizes) {
  Output places = matrix(2, {0, 0}), values = floats({1}), shape = longs({-1, 2});
  refused(run("SparseReorder", {places, values, shape}));
  refused(run("SparseFillEmptyRows", {places, values, shape, feed(Tensor::scalar(0.0f))}));
  refused(run("SparseSlice", {places, values, longs({2, 2}), longs({0, 0}), longs({1, -1})}));
  refused(run("SparseSlice",
              {places, values, longs({2, 2}), longs({std::numeric_limits<std::int64_t>::min(), 0}), longs({1, 1})}));
  refused(run("SparseSplit", {feed(Tensor::scalar(std::int64_t{0})), places, values, shape},
              {{"num_split", std::int64_t{2}}}));
}

TEST_F(SparseOpsTest, ASliceMayBeginBeforeTheTensor) {
  auto slice =
      values("SparseSlice", {matrix(2, {0, 0, 1, 1}), floats({1, 2}), longs({2, 2}), longs({-1, 0}), longs({2, 2})});
  ASSERT_TRUE(slice.ok()) << slice.status().to_string();
  EXPECT_TRUE(bitwise_equal((*slice)[0], Tensor::of<std::int64_t>({1, 2}, {1, 0})));
  EXPECT_TRUE(bitwise_equal((*slice)[1], Tensor::vector<float>({1})));
  EXPECT_TRUE(bitwise_equal((*slice)[2], Tensor::vector<std::int64_t>({2, 2})));
}

TEST_F(SparseOpsTest, CountedEntriesMustLieInside) {
  for (const std::int64_t row : {-1, 2}) {
    const Status counts = run("SparseBincount", {matrix(1, {row}), feed(Tensor::vector<std::int32_t>({1})), longs({2}),
                                                 feed(Tensor::scalar(std::int32_t{4})), floats({})});
    EXPECT_EQ(counts.code(), Code::kInvalidArgument);
    EXPECT_NE(counts.message().find(str_cat("indices[0, :] = [", row, "] is out of bounds")), std::string::npos)
        << counts.message();
  }
}

TEST_F(SparseOpsTest, IndicesOutside) {
  Output places = matrix(2, {0, 0, 7, kHuge}), values = floats({1, 2}), shape = longs({2, 2});
  refused(run("SparseSplit", {feed(Tensor::scalar(std::int64_t{0})), places, values, shape},
              {{"num_split", std::int64_t{2}}}));
  refused(run("SparseTensorDenseAdd", {places, values, shape, feed(Tensor(DType::kFloat, Shape{2, 2}))}));
  refused(run("SparseDenseCwiseMul", {places, values, shape, feed(Tensor(DType::kFloat, Shape{2, 2}))}));
  // No crash; what these make of it is the sender's.
  EXPECT_TRUE(run("SparseSoftmax", {places, values, shape}).ok());
  EXPECT_TRUE(run("SparseReshape", {places, shape, longs({4})}).ok());
  EXPECT_TRUE(run("SparseReorder", {places, values, shape}).ok());
}

TEST_F(SparseOpsTest, BagsOutside) {
  Output table = feed(Tensor(DType::kFloat, Shape{3, 2}));
  refused(run("SparseSegmentSum", {table, longs({0, 3}), longs({0, 0})}));
  refused(run("SparseSegmentSum", {table, longs({0, -1}), longs({0, 0})}));
  refused(run("SparseSegmentSum", {table, longs({0, 1}), longs({1, 0})}));
  refused(run("SparseSegmentSum", {table, longs({0, 1}), longs({-1, 0})}));
  refused(run("SparseSegmentSum", {table, longs({0, 1}), longs({0, kHuge})}));
  refused(run("SparseSegmentSum", {table, longs({0, 1}), longs({0, kHuge - 1})}));
  Output three = feed(Tensor::scalar(std::int32_t{3})), minus = feed(Tensor::scalar(std::int32_t{-1}));
  refused(run("SparseSegmentMeanGrad", {table, longs({0, 3}), longs({0, 0}), three}));
  refused(run("SparseSegmentMeanGrad", {table, longs({0, 1}), longs({0, 3}), three}));
  refused(run("SparseSegmentMeanGrad", {table, longs({}), longs({}), minus}));
  refused(run("SparseSegmentSqrtNGradV2", {table, longs({0, 3}), longs({0, 0}), three}));
}

TEST_F(SparseOpsTest, CrossesOfRowsThatGoOnForEver) {
  Output places = matrix(2, {0, 0, kHuge - 1, 0}), values = longs({5, 6}), shape = longs({kHuge, 1});
  const std::vector<DType> types{DType::kInt64, DType::kInt64};
  const AttrMap attrs = {
      {"N", std::int64_t{2}},      {"sparse_types", types},           {"dense_types", std::vector<DType>()},
      {"hashed_output", true},     {"num_buckets", std::int64_t{10}}, {"hash_key", std::int64_t{1}},
      {"out_type", DType::kInt64}, {"internal_type", DType::kInt64}};
  EXPECT_TRUE(run("SparseCross", {places, places, values, values, shape, shape}, attrs).ok());
  Output negative = longs({-3, 1});
  refused(run("SparseCross", {places, places, values, values, negative, negative}, attrs));
}

TEST_F(SparseOpsTest, Builders) {
  const SparseTensor x{matrix(2, {1, 0, 0, 1}), floats({5, 7}), longs({3, 2})};
  const auto dense = [&](const SparseTensor& t) {
    return testing::to_doubles(evaluator_.run(graph_, feeds_, {sparse_to_dense(t)})[0]);
  };
  using Doubles = std::vector<double>;
  EXPECT_EQ(dense(sparse_reorder(x)), (Doubles{0, 7, 5, 0, 0, 0}));
  EXPECT_EQ(dense(sparse_reshape(sparse_reorder(x), {2, -1})), (Doubles{0, 7, 5, 0, 0, 0}));
  Output keep = constant(graph_, Tensor::vector<bool>({false, true}));
  EXPECT_EQ(dense(sparse_retain(sparse_reorder(x), keep)), (Doubles{0, 0, 5, 0, 0, 0}));
  const FilledRows filled = sparse_fill_empty_rows(x, constant(graph_, 9, DType::kFloat));
  EXPECT_EQ(dense(filled.filled), (Doubles{0, 7, 5, 0, 9, 0}));
  EXPECT_EQ(testing::to_doubles(evaluator_.run(
                graph_, feeds_, {sparse_dense_matmul(x, constant(graph_, Tensor::of<float>(Shape{2, 1}, {1, 2})))})[0]),
            (Doubles{14, 5, 0}));
}

// TensorFlow finds no rows in splits of one by three.
TEST_F(SparseOpsTest, RowsOfSplitsAreTheFirstDimension) {
  const auto gather = [this](const Shape& shape) {
    return run("RaggedGather",
               {feed(Tensor::of<std::int64_t>(shape, {0, 1, 2})), feed(Tensor::vector<float>({5, 6})), longs({1})},
               {{"PARAMS_RAGGED_RANK", std::int64_t{1}}, {"OUTPUT_RAGGED_RANK", std::int64_t{1}}});
  };
  EXPECT_TRUE(gather({3}).ok());
  refused(gather({1, 3}));
}

}  // namespace tutti::sparse_ops_test

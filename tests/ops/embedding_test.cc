#include "tutti/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_eval.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/segments.h"

namespace tutti::embedding_test {

using Doubles = std::vector<double>;

class EmbeddingTest : public ::testing::Test {
 protected:
  // rows x 2, the element of row r being 10 r and 10 r + 1.
  static Tensor rows(std::int64_t first, std::int64_t count, std::int64_t step = 1) {
    Tensor value(DType::kDouble, {count, 2});
    for (std::int64_t i = 0; i < count; ++i) {
      value.data<double>()[2 * i] = static_cast<double>(10 * (first + i * step));
      value.data<double>()[2 * i + 1] = static_cast<double>(10 * (first + i * step) + 1);
    }
    return value;
  }
  Output ids(std::vector<std::int64_t> values) { return constant(graph_, Tensor::vector<std::int64_t>(values)); }
  SparseTensor sparse(std::vector<std::int64_t> places, Output values, std::vector<std::int64_t> shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const Shape size{static_cast<std::int64_t>(places.size()) / rank, rank};
    return {constant(graph_, Tensor::of<std::int64_t>(size, places)), values, ids(shape)};
  }
  Output numbers(std::vector<double> values) { return constant(graph_, Tensor::vector<double>(values)); }
  Doubles run(Output value) { return testing::to_doubles(evaluator_.run(value)); }
  void initialize() { evaluator_.run_target(global_variables_initializer(graph_)); }

  Graph graph_{builtin_ops()};
  testing::GraphEvaluator evaluator_;
};

TEST_F(EmbeddingTest, RowsOfEveryKindOfTable) {
  Output wanted = ids({4, 0, 3, 4});
  const Doubles expected{40, 41, 0, 1, 30, 31, 40, 41};
  Var whole = variable(graph_, rows(0, 5), "whole");
  PartitionedVar div = partitioned_variable(graph_, rows(0, 5), "div", fixed_size_partitioner(2));
  std::vector<Var> mod{variable(graph_, rows(0, 3, 2), "mod0"), variable(graph_, rows(1, 2, 2), "mod1")};
  const std::vector<EmbeddingTable> tables{constant(graph_, rows(0, 5)), whole, div, mod};
  std::vector<Output> found;
  for (const EmbeddingTable& table : tables) found.push_back(embedding_lookup(table, wanted));
  Output square = embedding_lookup(mod, reshape(wanted, {2, 2}));
  initialize();
  for (Output value : found) EXPECT_EQ(run(value), expected);
  EXPECT_EQ(evaluator_.run(square).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(run(square), expected);
}

TEST_F(EmbeddingTest, LongRowsAreShortened) {
  Output table = constant(graph_, Tensor::of<double>(Shape{3, 2}, {3, 4, 0.6, 0.8, 0, 0}));
  Output found = embedding_lookup(table, ids({0, 1, 2}), 2.0);
  const Doubles got = run(found);
  const Doubles expected{1.2, 1.6, 0.6, 0.8, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  for (const double g : run(gradients({found}, {table})[0].dense())) EXPECT_TRUE(std::isfinite(g));
}

TEST_F(EmbeddingTest, Bags) {
  Output table = constant(graph_, rows(0, 5));
  const SparseTensor bags = sparse({0, 0, 0, 1, 2, 0}, ids({1, 3, 1}), {3, 2});
  const auto combined = [&](Combiner combiner) {
    return run(embedding_lookup_sparse(table, bags, {.combiner = combiner}));
  };
  EXPECT_EQ(combined(Combiner::kSum), (Doubles{40, 42, 0, 0, 10, 11}));
  EXPECT_EQ(combined(Combiner::kMean), (Doubles{20, 21, 0, 0, 10, 11}));
  const Doubles scaled = combined(Combiner::kSqrtN);
  EXPECT_NEAR(scaled[0], 40 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(scaled[1], 42 / std::sqrt(2.0), 1e-12);
}

TEST_F(EmbeddingTest, WeightedBags) {
  Output table = constant(graph_, rows(0, 5));
  const std::vector<std::int64_t> places{0, 0, 0, 1, 1, 0};
  const SparseTensor bags = sparse(places, ids({1, 3, 2}), {2, 2});
  const SparseTensor weights = sparse(places, numbers({1, 3, 0.5}), {2, 2});
  const auto combined = [&](Combiner combiner) {
    return run(embedding_lookup_sparse(table, bags, {.combiner = combiner, .weights = weights}));
  };
  EXPECT_EQ(combined(Combiner::kSum), (Doubles{100, 104, 10, 10.5}));
  EXPECT_EQ(combined(Combiner::kMean), (Doubles{25, 26, 20, 21}));
  const Doubles scaled = combined(Combiner::kSqrtN);
  EXPECT_NEAR(scaled[0], 100 / std::sqrt(10.0), 1e-12);
  EXPECT_NEAR(scaled[3], 21, 1e-12);
}

TEST_F(EmbeddingTest, SafeBagsHaveARowForEveryone) {
  Output table = constant(graph_, rows(0, 5));
  // Rows: {1, 3}, {}, {only an id that does not count}, {2}.
  const SparseTensor bags = sparse({0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0}, ids({1, 3, -1, 2}), {2, 2, 2});
  Output zeros = safe_embedding_lookup_sparse(table, bags, {.combiner = Combiner::kSum});
  Output third = safe_embedding_lookup_sparse(table, bags, {.combiner = Combiner::kSum}, 3);
  EXPECT_EQ(evaluator_.run(zeros).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(run(zeros), (Doubles{40, 42, 0, 0, 0, 0, 20, 21}));
  EXPECT_EQ(run(third), (Doubles{40, 42, 30, 31, 30, 31, 20, 21}));
}

TEST_F(EmbeddingTest, SafeBagsLeaveOutWeightsThatAreNotPositive) {
  Output table = constant(graph_, rows(0, 5));
  const std::vector<std::int64_t> places{0, 0, 0, 1, 1, 0};
  const SparseTensor bags = sparse(places, ids({1, 3, 2}), {2, 2});
  const SparseTensor weights = sparse(places, numbers({2, 0, -1}), {2, 2});
  EXPECT_EQ(run(safe_embedding_lookup_sparse(table, bags, {.combiner = Combiner::kMean, .weights = weights})),
            (Doubles{10, 11, 0, 0}));
}

TEST_F(EmbeddingTest, GradientsOfBags) {
  Var table = variable(graph_, rows(0, 5), "table");
  const SparseTensor bags = sparse({0, 0, 0, 1, 2, 0}, ids({1, 3, 1}), {3, 2});
  Output total = reduce_sum(embedding_lookup_sparse(table, bags, {.combiner = Combiner::kMean}));
  const Gradient gradient = gradients({total}, {table.handle()})[0];
  EXPECT_TRUE(gradient.is_sparse());
  initialize();
  EXPECT_EQ(run(gradient.dense()), (Doubles{0, 0, 1.5, 1.5, 0, 0, 0.5, 0.5, 0, 0}));
}

TEST_F(EmbeddingTest, SegmentBuilders) {
  Output data = constant(graph_, Tensor::of<double>(Shape{4, 1}, {2, 3, 5, 7}));
  Output sorted = ids({0, 0, 2, 2}), mixed = ids({2, 0, 2, -1});
  Output three = constant(graph_, 3, DType::kInt32);
  EXPECT_EQ(run(segment_sum(data, sorted)), (Doubles{5, 0, 12}));
  EXPECT_EQ(run(segment_mean(data, sorted)), (Doubles{2.5, 0, 6}));
  EXPECT_EQ(run(segment_prod(data, sorted)), (Doubles{6, 1, 35}));
  EXPECT_EQ(run(segment_min(data, sorted)), (Doubles{2, 0, 5}));
  EXPECT_EQ(run(segment_max(data, sorted)), (Doubles{3, 0, 7}));
  EXPECT_EQ(run(unsorted_segment_prod(data, mixed, three)), (Doubles{3, 1, 10}));
  EXPECT_EQ(run(unsorted_segment_mean(data, mixed, three)), (Doubles{3, 0, 3.5}));
  EXPECT_EQ(run(unsorted_segment_max(data, mixed, three))[2], 5);
  EXPECT_EQ(run(unsorted_segment_min(data, mixed, three))[2], 2);
  EXPECT_EQ(
      run(sparse_segment_sum(data, ids({3, 3, 0, 1}), sorted, {.num_segments = constant(graph_, 4, DType::kInt32)})),
      (Doubles{14, 0, 5, 0}));
}

TEST_F(EmbeddingTest, ATableWithoutPartsIsRefused) { EXPECT_THROW(EmbeddingTable(std::vector<Var>()), Error); }

}  // namespace tutti::embedding_test

#include "tutti/kernels/resources/accumulator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "tutti/core/borrowed_buffer.h"

namespace tutti::accumulator_test {

struct Answer {
  std::optional<Status> status;
  Accumulator::Parts parts;
  bool ok() const { return status && status->ok(); }
  Accumulator::TakeDone taken() {
    return [this](Status s, Accumulator::Parts p) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
      parts = std::move(p);
    };
  }
};

std::shared_ptr<DenseAccumulator> dense(AccumulatorOptions options = {.name = "a", .shape = PartialShape{2}}) {
  return DenseAccumulator::create(std::move(options)).value_or_throw();
}

Tensor pair(float a, float b) { return Tensor::vector<float>({a, b}); }

class AccumulatorTest : public ::testing::Test {
 protected:
  Cancellation cancellation_;
};

TEST_F(AccumulatorTest, MeanAndStaleness) {
  auto a = dense();
  EXPECT_TRUE(a->apply_gradient(0, pair(1, 2)).ok());
  EXPECT_TRUE(a->apply_gradient(4, pair(3, 5)).ok()) << "from the future";
  EXPECT_EQ(a->num_accumulated(), 2);
  Answer got;
  a->take(2, cancellation_, got.taken());
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(bitwise_equal(got.parts[0], pair(2, 3.5)));
  EXPECT_EQ(a->num_accumulated(), 0);
  EXPECT_EQ(a->global_step(), 1);
  EXPECT_TRUE(a->apply_gradient(0, pair(9, 9)).ok()) << "stale ones are dropped silently";
  EXPECT_TRUE(a->apply_gradient(0, Tensor::vector<float>({1})).ok()) << "whatever their shape";
  EXPECT_EQ(a->num_accumulated(), 0);
  a->set_global_step(0);
  EXPECT_TRUE(a->apply_gradient(0, pair(9, 9)).ok());
  EXPECT_EQ(a->num_accumulated(), 1);
}

TEST_F(AccumulatorTest, SumInEveryFloatingType) {
  for (const DType dtype : {DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kDouble}) {
    auto a = dense({.dtype = dtype, .reduction = AccumulatorReduction::kSum});
    Tensor empty(dtype, {0});
    EXPECT_TRUE(a->apply_gradient(0, empty).ok());
    EXPECT_TRUE(a->apply_gradient(0, empty).ok());
    Answer got;
    a->take(2, cancellation_, got.taken());
    EXPECT_TRUE(bitwise_equal(got.parts[0], empty));
  }
  auto a = dense({.reduction = AccumulatorReduction::kSum});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(a->apply_gradient(0, Tensor::scalar(1.5f)).ok());
  Answer got;
  a->take(1, cancellation_, got.taken());
  EXPECT_TRUE(bitwise_equal(got.parts[0], Tensor::scalar(4.5f))) << "more than required: all of them";
  EXPECT_FALSE(DenseAccumulator::create({.dtype = DType::kString}).ok());
}

TEST_F(AccumulatorTest, WhoWaitsInAResetOneIsTold) {
  auto a = dense();
  Answer got, late;
  a->take(2, cancellation_, got.taken());
  EXPECT_FALSE(got.status);
  a->abandon();
  ASSERT_TRUE(got.status);
  EXPECT_EQ(got.status->code(), Code::kAborted);
  a->take(1, cancellation_, late.taken());
  ASSERT_TRUE(late.status);
  EXPECT_EQ(late.status->code(), Code::kAborted);
}

TEST_F(AccumulatorTest, TheFirstGradientIsCopied) {
  auto a = dense();
  const Tensor first = pair(1, 2);
  EXPECT_TRUE(a->apply_gradient(0, first).ok());
  EXPECT_TRUE(a->apply_gradient(0, pair(1, 1)).ok());
  EXPECT_TRUE(bitwise_equal(first, pair(1, 2)));
}

// What was received is kept where it lies; the mean has the bits that adding as they come would give.
TEST_F(AccumulatorTest, ReceivedGradientsAreAddedInOrder) {
  for (const int count : {1, 2, 3, 5}) {
    for (const int received : {0, 1, 2, 31}) {  // which of them, by bits
      auto a = dense();
      std::vector<std::weak_ptr<Buffer>> kept;
      float sums[2] = {0, 0};
      for (int i = 0; i < count; ++i) {
        const Tensor own = pair(0.1f * static_cast<float>(i + 1), 1e6f / static_cast<float>(i + 3));
        for (int e = 0; e < 2; ++e) sums[e] = i == 0 ? own.data<float>()[e] : sums[e] + own.data<float>()[e];
        if ((received & (1 << i)) == 0) {
          ASSERT_TRUE(a->apply_gradient(0, own).ok());
          continue;
        }
        const auto bytes = std::as_bytes(own.flat<float>());
        const Tensor lent(DType::kFloat, Shape{2}, std::make_shared<BorrowedBuffer>(bytes, own.buffer()));
        kept.push_back(lent.buffer());
        ASSERT_TRUE(a->apply_gradient(0, lent).ok());
      }
      Answer got;
      a->take(count, cancellation_, got.taken());
      ASSERT_TRUE(got.ok());
      const auto n = static_cast<float>(count);
      EXPECT_TRUE(bitwise_equal(got.parts[0], pair(sums[0] / n, sums[1] / n))) << count << " " << received;
      got.parts.clear();
      for (const auto& buffer : kept) EXPECT_TRUE(buffer.expired()) << "given back once the mean is taken";
    }
  }
}

TEST_F(AccumulatorTest, ShapesMustFit) {
  auto a = dense();
  EXPECT_EQ(a->apply_gradient(0, Tensor::vector<float>({1, 2, 3})),
            invalid_argument("Shape mismatch: expected [2], got [3]"));
  auto open = dense({.shape = PartialShape{-1}});
  EXPECT_TRUE(open->apply_gradient(0, Tensor::vector<float>({1, 2, 3})).ok());
  EXPECT_EQ(open->apply_gradient(0, pair(1, 2)), invalid_argument("Shape mismatch: expected [3], got [2]"));
  EXPECT_EQ(open->num_accumulated(), 1);
  EXPECT_EQ(a->apply_gradient(0, Tensor::scalar(1.0)).code(), Code::kInvalidArgument);
  Answer none;
  a->take(0, cancellation_, none.taken());
  EXPECT_EQ(*none.status, invalid_argument("Argument num_required must be positive, but was 0"));
}

TEST_F(AccumulatorTest, WaitersAreServedInOrder) {
  auto a = dense();
  Answer two, one;
  a->take(2, cancellation_, two.taken());
  a->take(1, cancellation_, one.taken());
  EXPECT_TRUE(a->apply_gradient(0, pair(1, 1)).ok());
  EXPECT_FALSE(two.status || one.status) << "the second must not overtake the first";
  EXPECT_TRUE(a->apply_gradient(0, pair(3, 3)).ok());
  ASSERT_TRUE(two.ok());
  EXPECT_TRUE(bitwise_equal(two.parts[0], pair(2, 2)));
  EXPECT_FALSE(one.status);
  EXPECT_TRUE(a->apply_gradient(1, pair(5, 5)).ok());
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(bitwise_equal(one.parts[0], pair(5, 5)));
  EXPECT_EQ(a->global_step(), 2);
}

TEST_F(AccumulatorTest, Cancellation) {
  auto a = dense();
  class Cancellation other;
  Answer two, one, late;
  a->take(2, other, two.taken());
  a->take(1, cancellation_, one.taken());
  EXPECT_TRUE(a->apply_gradient(0, pair(1, 1)).ok());
  other.cancel(cancelled("the step was cancelled"));
  EXPECT_EQ(*two.status, cancelled("TakeGrad operation was cancelled"));
  EXPECT_TRUE(one.ok()) << "the one behind asked for less";
  a->take(1, other, late.taken());
  EXPECT_EQ(*late.status, cancelled("TakeGrad operation was cancelled"));
}

TEST_F(AccumulatorTest, ThreadsLoseNothing) {
  constexpr int kRounds = 500, kWorkers = 3;
  auto a = dense({.shape = PartialShape{1}, .reduction = AccumulatorReduction::kSum});
  std::atomic<double> total{0};
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(a->apply_gradient(1 << 30, Tensor::vector<float>({1})).ok());
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kRounds; ++i) {
      a->take(1, cancellation_, [&](Status status, Accumulator::Parts parts) {
        EXPECT_TRUE(status.ok());
        ++answers;
        double now = total;
        while (!total.compare_exchange_weak(now, now + static_cast<double>(parts[0].scalar<float>()))) {
        }
      });
    }
  });
  for (std::thread& thread : threads) thread.join();
  for (int i = answers; i < kRounds; ++i) EXPECT_TRUE(a->apply_gradient(1 << 30, Tensor::vector<float>({0})).ok());
  EXPECT_EQ(answers, kRounds);
  EXPECT_EQ(total + static_cast<double>(a->num_accumulated()), kRounds * kWorkers);
}

Tensor ids(std::initializer_list<std::int64_t> values) { return Tensor::vector<std::int64_t>(values); }

TEST_F(AccumulatorTest, SparseRowsAreCountedOneByOne) {
  auto a = SparseAccumulator::create({.name = "s", .shape = PartialShape{5, 2}}).value_or_throw();
  EXPECT_TRUE(a->apply_gradient(0, ids({0, 3}), Tensor::of<float>({2, 2}, {1, 2, 3, 4}), ids({5, 2})).ok());
  EXPECT_TRUE(a->apply_gradient(0, ids({3, 4}), Tensor::of<float>({2, 2}, {10, 20, 30, 40}), Tensor()).ok());
  Answer got;
  a->take(2, cancellation_, got.taken());
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(bitwise_equal(got.parts[0], ids({0, 3, 4})));
  EXPECT_TRUE(bitwise_equal(got.parts[1], Tensor::of<float>({3, 2}, {1, 2, 6.5, 12, 30, 40})));
  EXPECT_TRUE(bitwise_equal(got.parts[2], ids({5, 2})));

  // Not sorted: what TensorFlow 2.15 gives.
  EXPECT_TRUE(a->apply_gradient(1, ids({3, 1, 1}), Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), ids({5, 2})).ok());
  EXPECT_TRUE(a->apply_gradient(1, ids({1, 2}), Tensor::of<float>({2, 2}, {10, 20, 30, 40}), ids({5, 2})).ok());
  Answer unsorted;
  a->take(2, cancellation_, unsorted.taken());
  EXPECT_TRUE(bitwise_equal(unsorted.parts[0], ids({1, 2, 3, 1, 1})));
  EXPECT_TRUE(bitwise_equal(unsorted.parts[1], Tensor::of<float>({5, 2}, {10, 20, 30, 40, 1, 2, 3, 4, 5, 6})));

  EXPECT_TRUE(a->apply_gradient(2, ids({}), Tensor(DType::kFloat, {0, 2}), ids({5, 2})).ok());
  Answer empty;
  a->take(1, cancellation_, empty.taken());
  EXPECT_EQ(empty.parts[1].shape(), (Shape{0, 2}));
}

TEST_F(AccumulatorTest, SparseAgainstAMap) {
  for (const auto reduction : {AccumulatorReduction::kMean, AccumulatorReduction::kSum}) {
    auto a = SparseAccumulator::create({.dtype = DType::kDouble, .reduction = reduction}).value_or_throw();
    std::map<std::int64_t, std::pair<double, int>> expected;
    for (int g = 0; g < 6; ++g) {
      std::vector<std::int64_t> rows;
      std::vector<double> values;
      for (std::int64_t row = g % 3; row < 40; row += 1 + g) {
        rows.push_back(row);
        values.push_back(0.5 * static_cast<double>(row) + g);
        expected[row].first += values.back();
        ++expected[row].second;
      }
      const Shape shape{static_cast<std::int64_t>(rows.size())};
      EXPECT_TRUE(
          a->apply_gradient(0, Tensor::vector<std::int64_t>(rows), Tensor::of<double>(shape, values), Tensor()).ok());
    }
    Answer got;
    a->take(6, cancellation_, got.taken());
    ASSERT_EQ(got.parts[0].num_elements(), static_cast<std::int64_t>(expected.size()));
    std::int64_t i = 0;
    for (const auto& [row, sum] : expected) {
      EXPECT_EQ(got.parts[0].data<std::int64_t>()[i], row);
      const double want = reduction == AccumulatorReduction::kMean ? sum.first / sum.second : sum.first;
      EXPECT_NEAR(got.parts[1].data<double>()[i++], want, 1e-12);
    }
    EXPECT_TRUE(bitwise_equal(got.parts[2], ids({-1})));
  }
}

TEST_F(AccumulatorTest, SparsePartsMustFit) {
  auto a = SparseAccumulator::create({.name = "s", .shape = PartialShape{5, 2}}).value_or_throw();
  const auto refused = [&](Tensor indices, const Shape& values, Tensor shape) {
    const Status status = a->apply_gradient(0, indices, Tensor(DType::kFloat, values), shape);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  const Tensor shape = ids({5, 2});
  EXPECT_EQ(refused(ids({0}), {1}, shape), "Shape mismatch: expected values rank at least 2, got 1");
  EXPECT_EQ(refused(ids({0}), {}, shape), "Values cannot be 0-dimensional.");
  EXPECT_EQ(refused(ids({0}), {1, 3}, shape), "Shape mismatch: expected values dim 1 to be 2, got 3");
  EXPECT_EQ(refused(ids({9}), {1, 2}, shape),
            "Shape mismatch: index of slice 0 exceeded limits of shape; index is 9 exceeded 5");
  EXPECT_EQ(refused(ids({0}), {1, 2}, ids({6, 2})), "Shape mismatch: expected shape dim 0 to be 5, got 6");
  EXPECT_EQ(refused(ids({0}), {1, 2}, ids({5})), "Shape mismatch: expected shape rank at least 2, got 1");
  EXPECT_EQ(refused(ids({0, 1}), {1, 2}, shape), "Expected 2 non-empty input values, got 1");
  EXPECT_EQ(refused(Tensor(DType::kInt64, {1, 1}), {1, 2}, shape),
            "Input indices should be vector but received shape: [1,1]");
  EXPECT_EQ(refused(Tensor(DType::kInt32, {1}), {1, 2}, shape), "indices and shape of a sparse gradient must be int64");
  EXPECT_EQ(a->num_accumulated(), 0);
  EXPECT_TRUE(a->apply_gradient(0, ids({0}), Tensor(DType::kFloat, {1, 2}), shape).ok());
  EXPECT_EQ(refused(ids({0}), {1, 3}, shape), "Shape mismatch: expected values dim 1 to be 2, got 3");
  EXPECT_EQ(refused(ids({0}), {1, 1, 2}, shape), "Shape mismatch: expected values rank 2, got 3");
}

}  // namespace tutti::accumulator_test

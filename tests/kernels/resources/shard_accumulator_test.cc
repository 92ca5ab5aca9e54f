#include "tutti/kernels/resources/shard_accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace tutti::shard_accumulator_test {

struct TakenMean {
  std::optional<Status> status;
  ShardAccumulator::Parts parts;
  bool ok() const { return status && status->ok(); }
  ShardAccumulator::TakeDone taken() {
    return [this](Status s, ShardAccumulator::Parts p) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
      parts = std::move(p);
    };
  }
};

Tensor both(float a, float b) { return Tensor::vector<float>({a, b}); }
Tensor row_numbers(const std::vector<std::int64_t>& values) { return Tensor::vector<std::int64_t>(values); }

class ShardAccumulatorTest : public ::testing::Test {
 protected:
  std::shared_ptr<DenseShardAccumulator> dense(std::int64_t shards) {
    return DenseShardAccumulator::create(
               {.name = "a", .shape = PartialShape{2}, .num_shards = shards, .ledger = ledger_})
        .value_or_throw();
  }
  std::shared_ptr<SparseShardAccumulator> sparse(std::int64_t shards) {
    return SparseShardAccumulator::create(
               {.name = "a", .shape = PartialShape{10, 2}, .num_shards = shards, .ledger = ledger_})
        .value_or_throw();
  }
  GradientLedger::Row counts(const std::string& worker) {
    for (const GradientLedger::Row& row : ledger_->rows()) {
      if (row.worker == worker) return row;
    }
    return {};
  }
  std::shared_ptr<GradientLedger> ledger_ = std::make_shared<GradientLedger>();
  Cancellation cancellation_;
};

TEST_F(ShardAccumulatorTest, SumsInTheOrderOfShardsWhateverOrderTheyComeIn) {
  // Values whose sum depends on the order of additions.
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  const int shards = 9;
  std::vector<Tensor> gradients;
  for (int i = 0; i < shards; ++i) gradients.push_back(both(normal(random) * std::pow(10.0f, i % 5), normal(random)));
  float a = 0, b = 0;
  for (int i = 0; i < shards; ++i) {
    a = i == 0 ? gradients[0].data<float>()[0] : a + gradients[static_cast<std::size_t>(i)].data<float>()[0];
    b = i == 0 ? gradients[0].data<float>()[1] : b + gradients[static_cast<std::size_t>(i)].data<float>()[1];
  }
  const Tensor expected = both(a / shards, b / shards);
  std::vector<std::int64_t> order(shards);
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < 50; ++round) {
    auto accumulator = dense(shards);
    TakenMean got;
    accumulator->take(0, cancellation_, got.taken());
    for (const std::int64_t shard : order) {
      EXPECT_FALSE(got.status);
      ASSERT_TRUE(accumulator->apply_gradient({0, shard}, gradients[static_cast<std::size_t>(shard)]).ok());
    }
    ASSERT_TRUE(got.ok());
    EXPECT_TRUE(bitwise_equal(got.parts[0], expected)) << got.parts[0].to_string();
    std::shuffle(order.begin(), order.end(), random);
  }
}

TEST_F(ShardAccumulatorTest, EveryShardCountsOnce) {
  auto a = dense(2);
  EXPECT_TRUE(a->apply_gradient({0, 1}, both(3, 5), "one").ok());
  EXPECT_TRUE(a->apply_gradient({0, 1}, both(100, 100), "two").ok()) << "a retry changes nothing";
  EXPECT_EQ(a->num_collected(), 1);
  EXPECT_TRUE(a->apply_gradient({0, 0}, both(1, 2), "one").ok());
  TakenMean got;
  a->take(0, cancellation_, got.taken());
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(bitwise_equal(got.parts[0], both(2, 3.5)));
  EXPECT_TRUE(a->apply_gradient({0, 0}, both(1, 2), "two").ok()) << "also after it was taken";
  EXPECT_EQ(counts("one").applied, 2);
  EXPECT_EQ(counts("two").applied, 0);
  EXPECT_EQ(counts("two").retried, 2);
}

TEST_F(ShardAccumulatorTest, TheNextStepBeginsWhenTheOneBeforeWasTaken) {
  auto a = dense(1);
  EXPECT_TRUE(a->apply_gradient({1, 0}, both(1, 1), "undone").ok());
  EXPECT_TRUE(a->apply_gradient({0, 0}, both(1, 2)).ok());
  EXPECT_TRUE(a->apply_gradient({1, 0}, both(1, 1), "undone").ok()) << "not taken";
  EXPECT_EQ(counts("undone").stale, 2);
  EXPECT_EQ(a->step(), 0);
  TakenMean got, again, later;
  a->take(0, cancellation_, got.taken());
  a->take(0, cancellation_, again.taken());
  ASSERT_TRUE(got.ok());
  ASSERT_TRUE(again.ok()) << "a chief that failed in between may take it again";
  EXPECT_TRUE(bitwise_equal(again.parts[0], both(1, 2)));
  a->take(1, cancellation_, later.taken());
  EXPECT_EQ(a->step(), 1);
  EXPECT_FALSE(later.status);
  EXPECT_TRUE(a->apply_gradient({0, 0}, both(9, 9), "late").ok()) << "stale ones are dropped silently";
  EXPECT_TRUE(a->apply_gradient({0, 0}, Tensor::scalar(1.0f), "late").ok()) << "whatever their shape";
  EXPECT_EQ(counts("late").stale, 2);
  EXPECT_FALSE(later.status);
  EXPECT_TRUE(a->apply_gradient({1, 0}, both(3, 4)).ok());
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE(bitwise_equal(later.parts[0], both(3, 4)));
  EXPECT_TRUE(a->apply_gradient({2, 0}, both(5, 6)).ok()) << "a push may begin it as well";
  TakenMean old, early;
  a->take(1, cancellation_, old.taken());
  EXPECT_EQ(old.status->code(), Code::kFailedPrecondition);
  a->take(4, cancellation_, early.taken());
  EXPECT_EQ(early.status->code(), Code::kFailedPrecondition);
}

TEST_F(ShardAccumulatorTest, SetToAStepItForgets) {
  auto a = dense(2);
  EXPECT_TRUE(a->apply_gradient({0, 0}, both(1, 2), "forgotten").ok());
  EXPECT_EQ(counts("forgotten").applied, 0) << "it may still be forgotten";
  TakenMean waiting;
  a->take(0, cancellation_, waiting.taken());
  a->set_step(5);
  ASSERT_TRUE(waiting.status);
  EXPECT_EQ(waiting.status->code(), Code::kAborted);
  EXPECT_EQ(a->num_collected(), 0);
  EXPECT_EQ(counts("forgotten").applied, 0);
  EXPECT_EQ(counts("forgotten").stale, 1);
  EXPECT_TRUE(a->apply_gradient({5, 1}, both(2, 2), "taken").ok());
  EXPECT_TRUE(a->apply_gradient({5, 0}, both(4, 4), "taken").ok());
  EXPECT_EQ(counts("taken").applied, 0);
  TakenMean got;
  a->take(5, cancellation_, got.taken());
  EXPECT_TRUE(bitwise_equal(got.parts[0], both(3, 3)));
  a->set_step(2);
  EXPECT_EQ(a->step(), 2);
  EXPECT_EQ(counts("taken").applied, 2);
  EXPECT_EQ(counts("taken").stale, 0);
}

TEST_F(ShardAccumulatorTest, WaitingEnds) {
  auto a = dense(1);
  TakenMean cancelled_one, aborted_one, late_one, cancelled_before;
  Cancellation other;
  a->take(0, other, cancelled_one.taken());
  a->take(0, cancellation_, aborted_one.taken());
  other.cancel(cancelled("enough"));
  EXPECT_EQ(cancelled_one.status->code(), Code::kCancelled);
  EXPECT_FALSE(aborted_one.status);
  a->take(0, other, cancelled_before.taken());
  EXPECT_EQ(cancelled_before.status->code(), Code::kCancelled);
  a->abandon();
  EXPECT_EQ(aborted_one.status->code(), Code::kAborted);
  a->take(0, cancellation_, late_one.taken());
  EXPECT_EQ(late_one.status->code(), Code::kAborted);
}

TEST_F(ShardAccumulatorTest, DenseErrorsLeaveEverythingAsItWas) {
  EXPECT_EQ(DenseShardAccumulator::create({.num_shards = 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DenseShardAccumulator::create({.num_shards = 1 << 20}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DenseShardAccumulator::create({.dtype = DType::kInt32}).status().code(), Code::kInvalidArgument);
  auto a = dense(2);
  EXPECT_EQ(a->apply_gradient({0, 2}, both(1, 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->apply_gradient({0, -1}, both(1, 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->apply_gradient({0, 0}, Tensor::scalar(1.0f)).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->apply_gradient({0, 0}, Tensor::vector<double>({1, 1})).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->num_collected(), 0);
  auto open = DenseShardAccumulator::create({.name = "b", .num_shards = 3}).value_or_throw();
  EXPECT_TRUE(open->apply_gradient({0, 2}, both(1, 1)).ok());
  EXPECT_EQ(open->apply_gradient({0, 0}, Tensor::scalar(1.0f)).code(), Code::kInvalidArgument) << "unlike the others";
  EXPECT_TRUE(open->apply_gradient({0, 0}, both(1, 1)).ok());
  EXPECT_EQ(open->apply_gradient({0, 1}, Tensor::scalar(1.0f)).code(), Code::kInvalidArgument);
}

TEST_F(ShardAccumulatorTest, RowsAreSummedInTheOrderOfShardsAndDividedByAllOfThem) {
  auto a = sparse(2);
  const Tensor shape = row_numbers({10, 2});
  TakenMean got;
  a->take(0, cancellation_, got.taken());
  EXPECT_TRUE(a->apply_gradient({0, 1}, row_numbers({7, 3}), Tensor::of<float>({2, 2}, {1, 2, 3, 4}), shape).ok());
  // Indices in any order, one of them twice.
  EXPECT_TRUE(
      a->apply_gradient({0, 0}, row_numbers({7, 1, 7}), Tensor::of<float>({3, 2}, {1, 1, 2, 2, 3, 3}), shape).ok());
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(bitwise_equal(got.parts[0], row_numbers({1, 3, 7})));
  EXPECT_TRUE(bitwise_equal(got.parts[1], Tensor::of<float>({3, 2}, {1, 1, 1.5, 2, 2.5, 3})))
      << got.parts[1].to_string();
  EXPECT_TRUE(bitwise_equal(got.parts[2], shape));
  // A step without any row.
  EXPECT_TRUE(a->apply_gradient({1, 0}, row_numbers({}), Tensor(DType::kFloat, Shape{0, 2}), shape).ok());
  EXPECT_TRUE(a->apply_gradient({1, 1}, row_numbers({}), Tensor(DType::kFloat, Shape{0, 2}), shape).ok());
  TakenMean none;
  a->take(1, cancellation_, none.taken());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none.parts[1].shape(), (Shape{0, 2}));
}

TEST_F(ShardAccumulatorTest, SparseErrors) {
  auto a = sparse(2);
  const Tensor shape = row_numbers({10, 2});
  const auto apply = [&](const Tensor& indices, const Tensor& values, const Tensor& dense_shape) {
    return a->apply_gradient({0, 0}, indices, values, dense_shape).code();
  };
  const Tensor one_row = Tensor::of<float>({1, 2}, {1, 2});
  EXPECT_EQ(apply(row_numbers({10}), one_row, shape), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({-1}), one_row, shape), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1, 2}), one_row, shape), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1}), one_row, row_numbers({9, 2})), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1}), one_row, row_numbers({10})), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1}), one_row, row_numbers({10, 3})), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1}), Tensor::scalar(1.0f), shape), Code::kInvalidArgument);
  EXPECT_EQ(apply(Tensor::vector<float>({1}), one_row, shape), Code::kInvalidArgument);
  EXPECT_EQ(apply(row_numbers({1}), Tensor::of<double>({1, 2}, {1, 2}), shape), Code::kInvalidArgument);
  EXPECT_EQ(a->num_collected(), 0);
}

TEST_F(ShardAccumulatorTest, ManyThreadsGiveOneSum) {
  const int shards = 16, steps = 50;
  auto a = dense(shards);
  std::vector<std::thread> workers;
  std::atomic<int> open{0};
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&a, &open, w] {
      // Everybody sends every shard: three of four are retries or late.
      for (int step = 0; step < steps; ++step) {
        while (open < step) std::this_thread::yield();
        for (int k = 0; k < shards; ++k) {
          const int shard = (k + w * 5) % shards;
          EXPECT_TRUE(a->apply_gradient({step, shard}, both(1, static_cast<float>(shard))).ok());
        }
      }
    });
  }
  for (int step = 0; step < steps; ++step) {
    Mutex mu;
    CondVar came;
    bool done = false;
    a->take(step, cancellation_, [&](Status status, ShardAccumulator::Parts parts) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_TRUE(status.ok() && bitwise_equal(parts[0], both(1, 7.5)));
      MutexLock lock(mu);
      done = true;
      came.notify_all();
    });
    {
      MutexLock lock(mu);
      while (!done) came.wait(mu);
    }
    ++open;
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace tutti::shard_accumulator_test

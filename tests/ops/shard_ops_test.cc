// The ops of strict synchronous replicas and of the gradient ledger, one by one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/kernel_runner.h"

namespace tutti::shard_ops_test {

using testing::KernelRunner;
using testing::value_of;

class ShardOps : public ::testing::Test {
 protected:
  std::unique_ptr<testing::KernelRun> start(const std::string& op, AttrMap attrs, std::vector<Value> inputs) {
    return runner_.start(op + std::to_string(count_++), op, std::move(attrs), std::move(inputs));
  }
  Value make(const std::string& op, AttrMap attrs) {
    auto run = start(op, std::move(attrs), {});
    EXPECT_TRUE(run->finished() && run->status().ok()) << run->status().to_string();
    return run->output(0);
  }
  Value accumulator(const std::string& kind, std::int64_t shards, PartialShape shape) {
    return make(kind, {{"dtype", DType::kFloat},
                       {"shape", std::move(shape)},
                       {"num_shards", shards},
                       {"shared_name", std::string("a")}});
  }
  Status apply(const Value& a, std::int64_t step, std::int64_t shard, Tensor gradient, const std::string& worker) {
    return start("TuttiShardApplyGradient", {{"worker", worker}},
                 {a, claim(step, shard), value_of(std::move(gradient))})
        ->status();
  }
  std::unique_ptr<testing::KernelRun> take(const Value& a, std::int64_t step) {
    return start("TuttiShardTakeGradient", {{"dtype", DType::kFloat}}, {a, number(step)});
  }
  std::unique_ptr<testing::KernelRun> next(const Value& board, const std::string& worker, Value finished,
                                           std::int64_t threads = 2) {
    return start("TuttiNextShard", {{"worker", worker}}, {board, std::move(finished), number(threads)});
  }
  static Value claim(std::int64_t step, std::int64_t shard) {
    return value_of(Tensor::vector<std::int64_t>({step, shard}));
  }
  static Value number(std::int64_t value) { return value_of(Tensor::scalar(value)); }
  // "worker accumulator applied stale retried"
  std::vector<std::string> ledger() {
    auto run = start("TuttiGradientLedger", {}, {});
    EXPECT_TRUE(run->status().ok()) << run->status().to_string();
    std::vector<std::string> lines;
    for (std::int64_t i = 0; i < run->tensor(0).num_elements(); ++i) {
      const std::int64_t* counts = run->tensor(2).data<std::int64_t>() + 3 * i;
      lines.push_back(str_cat(run->tensor(0).data<std::string>()[i], " ", run->tensor(1).data<std::string>()[i], " ",
                              counts[0], " ", counts[1], " ", counts[2]));
    }
    return lines;
  }
  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(ShardOps, Dense) {
  const Value a = accumulator("TuttiShardAccumulator", 2, PartialShape{2});
  auto waiting = take(a, 0);
  EXPECT_FALSE(waiting->finished());
  EXPECT_TRUE(apply(a, 0, 1, Tensor::vector<float>({3, 4}), "w1").ok());
  EXPECT_TRUE(apply(a, 0, 1, Tensor::vector<float>({9, 9}), "w0").ok());
  EXPECT_FALSE(waiting->finished());
  EXPECT_TRUE(apply(a, 0, 0, Tensor::vector<float>({1, 2}), "w0").ok());
  ASSERT_TRUE(waiting->finished());
  EXPECT_TRUE(bitwise_equal(waiting->tensor(), Tensor::vector<float>({2, 3})));
  EXPECT_TRUE(start("TuttiShardSetStep", {}, {a, number(7)})->status().ok());
  EXPECT_TRUE(apply(a, 0, 0, Tensor::vector<float>({1, 2}), "").ok());
  EXPECT_EQ(ledger(), (std::vector<std::string>{"unknown a 0 1 0", "w0 a 1 0 1", "w1 a 1 0 0"}));
}

TEST_F(ShardOps, Sparse) {
  const Value a = accumulator("TuttiSparseShardAccumulator", 1, PartialShape{5, 1});
  auto sent = start("TuttiSparseShardApplyGradient", {{"worker", std::string("w")}},
                    {a, claim(0, 0), value_of(Tensor::vector<std::int64_t>({4, 2})),
                     value_of(Tensor::of<float>({2, 1}, {1, 2})), value_of(Tensor::vector<std::int64_t>({5, 1}))});
  EXPECT_TRUE(sent->status().ok()) << sent->status().to_string();
  EXPECT_EQ(take(a, 0)->status().code(), Code::kInvalidArgument) << "the op of the dense ones";
  auto taken = start("TuttiSparseShardTakeGradient", {{"dtype", DType::kFloat}}, {a, number(0)});
  ASSERT_TRUE(taken->finished() && taken->status().ok()) << taken->status().to_string();
  EXPECT_TRUE(bitwise_equal(taken->tensor(0), Tensor::vector<std::int64_t>({2, 4})));
  EXPECT_TRUE(bitwise_equal(taken->tensor(1), Tensor::of<float>({2, 1}, {2, 1})));
}

TEST_F(ShardOps, WorkersHaveTheSameThreads) {
  auto size = start("TuttiTeamSize", {}, {});
  ASSERT_TRUE(size->status().ok()) << size->status().to_string();
  EXPECT_GE(size->tensor().scalar<std::int64_t>(), 1);
  const Value board = make("TuttiShardBoard", {{"num_shards", std::int64_t{2}}});
  EXPECT_TRUE(start("TuttiOpenShards", {}, {board, number(0)})->status().ok());
  EXPECT_TRUE(next(board, "w0", claim(-1, -1), 2)->status().ok());
  EXPECT_EQ(next(board, "w1", claim(-1, -1), 3)->status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(next(board, "w1", claim(-1, -1), 0)->status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(next(board, "w1", claim(-1, -1), 2)->status().ok());
}

TEST_F(ShardOps, Board) {
  const Value board = make("TuttiShardBoard", {{"num_shards", std::int64_t{1}}});
  const Value none = claim(-1, -1);
  auto first = next(board, "w0", none);
  EXPECT_FALSE(first->finished());
  EXPECT_TRUE(start("TuttiOpenShards", {}, {board, number(3)})->status().ok());
  ASSERT_TRUE(first->finished());
  EXPECT_TRUE(bitwise_equal(first->tensor(), Tensor::vector<std::int64_t>({3, 0})));
  auto second = next(board, "w1", none);
  auto presence = start("TuttiAttendShards", {{"worker", std::string("w1")}}, {board});
  EXPECT_FALSE(second->finished());
  EXPECT_TRUE(start("TuttiGiveBackShards", {{"worker", std::string("w0")}}, {board})->status().ok());
  EXPECT_TRUE(second->finished());
  auto third = next(board, "w0", none);
  EXPECT_TRUE(start("TuttiCloseShards", {}, {board})->status().ok());
  ASSERT_TRUE(third->finished());
  EXPECT_EQ(third->status().code(), Code::kOutOfRange);
  EXPECT_TRUE(presence->finished() && presence->status().ok());
}

TEST_F(ShardOps, CancelledWhileWaiting) {
  const Value board = make("TuttiShardBoard", {{"num_shards", std::int64_t{1}}});
  const Value a = accumulator("TuttiShardAccumulator", 1, PartialShape{1});
  auto asking = next(board, "w", claim(-1, -1));
  auto taking = take(a, 0);
  auto presence = start("TuttiAttendShards", {{"worker", std::string("w")}}, {board});
  runner_.step().cancellation->cancel(cancelled("enough"));
  for (const auto* run : {asking.get(), taking.get(), presence.get()}) {
    ASSERT_TRUE(run->finished());
    EXPECT_EQ(run->status().code(), Code::kCancelled);
  }
}

TEST_F(ShardOps, Errors) {
  const Value a = accumulator("TuttiShardAccumulator", 2, PartialShape{1});
  const Value board = make("TuttiShardBoard", {{"num_shards", std::int64_t{2}}});
  const Tensor gradient = Tensor::vector<float>({1});
  const auto code = [](const std::unique_ptr<testing::KernelRun>& run) { return run->status().code(); };
  EXPECT_EQ(apply(a, 0, 2, gradient, "w").code(), Code::kInvalidArgument);
  EXPECT_EQ(code(start("TuttiShardApplyGradient", {}, {a, number(1), value_of(gradient)})), Code::kInvalidArgument);
  EXPECT_EQ(code(start("TuttiShardApplyGradient", {}, {board, claim(0, 0), value_of(gradient)})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(next(a, "w", claim(-1, -1))), Code::kInvalidArgument);
  EXPECT_EQ(code(next(board, "", claim(-1, -1))), Code::kInvalidArgument);
  EXPECT_EQ(code(next(board, "w", number(1))), Code::kInvalidArgument);
  EXPECT_EQ(code(start("TuttiOpenShards", {}, {board, number(-1)})), Code::kInvalidArgument);
  EXPECT_EQ(code(start("TuttiShardTakeGradient", {{"dtype", DType::kDouble}}, {a, number(0)})), Code::kInvalidArgument);
  // The same name for another number of shards.
  auto other = start("TuttiShardAccumulator",
                     {{"dtype", DType::kFloat},
                      {"shape", PartialShape{1}},
                      {"num_shards", std::int64_t{3}},
                      {"shared_name", std::string("a")}},
                     {});
  EXPECT_EQ(other->status(), invalid_argument("Resource a has 2 shards, the node asks for 3"));
}

// TensorFlow's accumulators are counted too: by the attribute where there is one.
TEST_F(ShardOps, ConditionalAccumulatorsInTheLedger) {
  const Value a = make("ResourceConditionalAccumulator",
                       {{"dtype", DType::kFloat}, {"shape", PartialShape{1}}, {"shared_name", std::string("c")}});
  const auto apply_at = [&](std::int64_t step, AttrMap attrs) {
    EXPECT_TRUE(start("ResourceAccumulatorApplyGradient", std::move(attrs),
                      {a, number(step), value_of(Tensor::vector<float>({1}))})
                    ->status()
                    .ok());
  };
  apply_at(0, {{"_tutti_worker", std::string("w")}});
  apply_at(0, {});
  EXPECT_TRUE(start("ResourceAccumulatorSetGlobalStep", {}, {a, number(2)})->status().ok());
  apply_at(1, {{"_tutti_worker", std::string("w")}});
  EXPECT_EQ(ledger(), (std::vector<std::string>{"unknown c 1 0 0", "w c 1 1 0"}));
}

}  // namespace tutti::shard_ops_test

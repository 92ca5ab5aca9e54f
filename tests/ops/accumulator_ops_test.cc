#include <gtest/gtest.h>

#include <vector>

#include "tests/support/kernel_runner.h"

namespace tutti::accumulator_ops_test {

using testing::KernelRunner;
using testing::value_of;

class AccumulatorOps : public ::testing::TestWithParam<bool> {
 protected:
  std::string op(const std::string& name) const { return (GetParam() ? "Resource" : "") + name; }
  Value make(const std::string& name, const std::string& kind) {
    auto run = runner_.run(name, kind, {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}});
    EXPECT_TRUE(run->status().ok()) << run->status().to_string();
    return run->output(0);
  }
  std::unique_ptr<testing::KernelRun> start(const std::string& op, AttrMap attrs, std::vector<Value> inputs) {
    return runner_.start(op + std::to_string(count_++), op, std::move(attrs), std::move(inputs));
  }
  std::unique_ptr<testing::KernelRun> apply(const Value& a, std::int64_t step, Tensor gradient) {
    return start(op("AccumulatorApplyGradient"), {}, {a, value_of(Tensor::scalar(step)), value_of(gradient)});
  }
  std::unique_ptr<testing::KernelRun> take(const Value& a, std::int32_t count) {
    return start(op("AccumulatorTakeGradient"), {{"dtype", DType::kFloat}}, {a, value_of(Tensor::scalar(count))});
  }
  KernelRunner runner_;
  int count_ = 0;
};

TEST_P(AccumulatorOps, TakeWaitsWithoutAThread) {
  const Value a = make("a", op("ConditionalAccumulator"));
  auto waiting = take(a, 2);
  EXPECT_FALSE(waiting->finished());
  ASSERT_TRUE(apply(a, 0, Tensor::vector<float>({1, 2}))->status().ok());
  EXPECT_EQ(start(op("AccumulatorNumAccumulated"), {}, {a})->tensor().scalar<std::int32_t>(), 1);
  ASSERT_TRUE(apply(a, 0, Tensor::vector<float>({3, 4}))->status().ok());
  ASSERT_TRUE(waiting->finished());
  EXPECT_TRUE(bitwise_equal(waiting->tensor(), Tensor::vector<float>({2, 3})));
  ASSERT_TRUE(start(op("AccumulatorSetGlobalStep"), {}, {a, value_of(Tensor::scalar(std::int64_t{7}))})->status().ok());
  ASSERT_TRUE(apply(a, 6, Tensor::vector<float>({1, 2}))->status().ok());
  EXPECT_EQ(start(op("AccumulatorNumAccumulated"), {}, {a})->tensor().scalar<std::int32_t>(), 0);
}

TEST_P(AccumulatorOps, CancelledWhileWaiting) {
  const Value a = make("a", op("ConditionalAccumulator"));
  auto waiting = take(a, 1);
  runner_.step().cancellation->cancel(cancelled("enough"));
  ASSERT_TRUE(waiting->finished());
  EXPECT_EQ(waiting->status(), cancelled("TakeGrad operation was cancelled"));
}

TEST_P(AccumulatorOps, Errors) {
  const Value a = make("a", op("ConditionalAccumulator"));
  EXPECT_EQ(take(a, 0)->status(), invalid_argument("Argument num_required must be positive, but was 0"));
  EXPECT_EQ(apply(a, 0, Tensor::scalar(1.0f))->status(), invalid_argument("Shape mismatch: expected [2], got []"));
  auto wrong_step = start(op("AccumulatorApplyGradient"), {},
                          {a, value_of(Tensor::vector<std::int64_t>({1, 2})), value_of(Tensor::vector<float>({1, 2}))});
  EXPECT_EQ(wrong_step->status(), invalid_argument("Argument local_step must be scalar, but had bad shape [2]"));
  EXPECT_EQ(start(op("AccumulatorApplyGradient"), {},
                  {a, value_of(Tensor::scalar(std::int64_t{0})), value_of(Tensor::vector<double>({1, 2}))})
                ->status()
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(start(op("AccumulatorTakeGradient"), {{"dtype", DType::kDouble}}, {a, value_of(Tensor::scalar(1))})
                ->status()
                .code(),
            Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Forms, AccumulatorOps, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Resource" : "Reference"; });

class SparseAccumulatorOps : public AccumulatorOps {};

TEST_P(SparseAccumulatorOps, RowsByIndex) {
  const Value a = make("a", "SparseConditionalAccumulator");
  const auto add = [&](std::vector<std::int64_t> rows, bool known) {
    const Tensor values = Tensor::vector<float>(std::vector<float>(rows.size(), 4));
    return start("SparseAccumulatorApplyGradient", {{"has_known_shape", known}},
                 {a, value_of(Tensor::scalar(std::int64_t{0})), value_of(Tensor::vector<std::int64_t>(rows)),
                  value_of(values), value_of(Tensor::vector<std::int64_t>({3}))})
        ->status();
  };
  EXPECT_EQ(add({0}, true), invalid_argument("Shape mismatch: expected shape dim 0 to be 2, got 3"));
  ASSERT_TRUE(add({0}, false).ok());
  ASSERT_TRUE(add({0, 1}, false).ok());
  auto taken = start("SparseAccumulatorTakeGradient", {{"dtype", DType::kFloat}},
                     {a, value_of(Tensor::scalar(std::int32_t{2}))});
  ASSERT_TRUE(taken->finished() && taken->status().ok()) << taken->status().to_string();
  EXPECT_TRUE(bitwise_equal(taken->tensor(0), Tensor::vector<std::int64_t>({0, 1})));
  EXPECT_TRUE(bitwise_equal(taken->tensor(1), Tensor::vector<float>({4, 4})));
  EXPECT_TRUE(bitwise_equal(taken->tensor(2), Tensor::vector<std::int64_t>({2})));
  EXPECT_EQ(take(a, 1)->status().code(), Code::kInvalidArgument) << "a dense take of a sparse accumulator";
}

INSTANTIATE_TEST_SUITE_P(Forms, SparseAccumulatorOps, ::testing::Values(false));

}  // namespace tutti::accumulator_ops_test

#include "tutti/kernels/resources/barrier.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tutti::barrier_test {

struct Taken {
  std::optional<Status> status;
  TensorTuple tuple;
  Queue::DequeueDone done() {
    return [this](Status s, TensorTuple t) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
      tuple = std::move(t);
    };
  }
  std::vector<std::string> keys() const {
    const auto keys = tuple.at(1).flat<std::string>();
    return {keys.begin(), keys.end()};
  }
};

class BarrierTest : public ::testing::Test {
 protected:
  Status insert(std::int64_t component, const std::vector<std::string>& keys, const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(keys.size());
    return barrier_->insert_many(component, Tensor::of<std::string>(Shape{count}, keys),
                                 Tensor::of<float>(Shape{static_cast<std::int64_t>(values.size())}, values));
  }

  Cancellation cancellation_;
  std::shared_ptr<Barrier> barrier_ = Barrier::create({.name = "b",
                                                       .component_types = {DType::kFloat, DType::kFloat},
                                                       .shapes = {PartialShape::scalar(), PartialShape::scalar()}})
                                          .value_or_throw();
};

TEST_F(BarrierTest, TuplesLeaveInTheOrderOfTheirKeysFirstValue) {
  Taken both;
  barrier_->take_many(2, false, cancellation_, both.done());
  ASSERT_TRUE(insert(0, {"a", "b", "c"}, {1, 2, 3}).ok());
  EXPECT_EQ(barrier_->incomplete_size(), 3);
  ASSERT_TRUE(insert(1, {"b"}, {20}).ok());
  EXPECT_FALSE(both.status) << "one is not enough";
  ASSERT_TRUE(insert(1, {"c", "a"}, {30, 10}).ok());
  ASSERT_TRUE(both.status && both.status->ok());
  EXPECT_EQ(barrier_->ready_size() + barrier_->incomplete_size(), 1);
  EXPECT_EQ(both.tuple.at(2).dim(0), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(both.tuple.at(3).flat<float>()[i], 10 * both.tuple.at(2).flat<float>()[i]) << both.keys()[i];
  }
}

TEST_F(BarrierTest, RefusedInsertionsChangeNothing) {
  ASSERT_TRUE(insert(0, {"a"}, {1}).ok());
  EXPECT_EQ(insert(0, {"b", "a"}, {1, 2}).code(), Code::kInvalidArgument) << "a has it";
  EXPECT_EQ(insert(0, {"b", "b"}, {1, 2}).code(), Code::kInvalidArgument) << "twice at once";
  EXPECT_EQ(insert(2, {"b"}, {1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(insert(-1, {"b"}, {1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(insert(0, {"b"}, {1, 2}).code(), Code::kInvalidArgument);
  EXPECT_EQ(barrier_->insert_many(0, Tensor::vector<std::string>({"b"}), Tensor::vector<std::int32_t>({1})).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(barrier_->incomplete_size(), 1);
}

TEST_F(BarrierTest, ClosedItTakesWhatIsMissing) {
  ASSERT_TRUE(insert(0, {"a", "b"}, {1, 2}).ok());
  ASSERT_TRUE(barrier_->close(false).ok());
  EXPECT_EQ(barrier_->close(false).code(), Code::kCancelled);
  EXPECT_EQ(insert(0, {"new"}, {1}).code(), Code::kCancelled);
  Taken three, fewer, none;
  barrier_->take_many(3, false, cancellation_, three.done());
  ASSERT_TRUE(insert(1, {"a", "b"}, {10, 20}).ok());
  ASSERT_TRUE(three.status);
  EXPECT_EQ(three.status->code(), Code::kOutOfRange);
  barrier_->take_many(3, true, cancellation_, fewer.done());
  ASSERT_TRUE(fewer.status && fewer.status->ok());
  EXPECT_EQ(fewer.keys(), (std::vector<std::string>{"a", "b"}));
  barrier_->take_many(1, true, cancellation_, none.done());
  EXPECT_EQ(none.status->code(), Code::kOutOfRange);
}

TEST_F(BarrierTest, ClosedItGivesFewerWithoutWaitingForTheRest) {
  ASSERT_TRUE(insert(0, {"a", "b", "c", "d"}, {1, 2, 3, 4}).ok());
  ASSERT_TRUE(insert(1, {"a", "b"}, {10, 20}).ok());
  ASSERT_TRUE(barrier_->close(false).ok());
  Taken some, none, all;
  barrier_->take_many(3, true, cancellation_, some.done());
  ASSERT_TRUE(some.status && some.status->ok());
  EXPECT_EQ(some.keys(), (std::vector<std::string>{"a", "b"}));
  barrier_->take_many(3, true, cancellation_, none.done());
  EXPECT_EQ(*none.status, out_of_range("Barrier 'b' is closed and has insufficient elements (requested 0, total size "
                                       "0)"));
  // Without that it waits for those that may still become complete.
  barrier_->take_many(2, false, cancellation_, all.done());
  EXPECT_FALSE(all.status);
  ASSERT_TRUE(insert(1, {"c", "d"}, {30, 40}).ok());
  ASSERT_TRUE(all.status && all.status->ok());
}

TEST_F(BarrierTest, PendingValuesCanBeDropped) {
  ASSERT_TRUE(insert(0, {"a"}, {1}).ok());
  Taken waiting;
  barrier_->take_many(1, false, cancellation_, waiting.done());
  ASSERT_TRUE(barrier_->close(true).ok());
  EXPECT_EQ(waiting.status->code(), Code::kOutOfRange);
  EXPECT_EQ(insert(1, {"a"}, {10}).code(), Code::kCancelled);
  EXPECT_EQ(barrier_->incomplete_size(), 0);
}

TEST_F(BarrierTest, WaitersEndWhenCancelledOrReset) {
  Taken cancelled_one, reset_one;
  barrier_->take_many(1, false, cancellation_, cancelled_one.done());
  cancellation_.cancel(cancelled("enough"));
  EXPECT_EQ(cancelled_one.status->code(), Code::kCancelled);
  Cancellation other;
  barrier_->take_many(1, false, other, reset_one.done());
  barrier_->abandon();
  EXPECT_EQ(reset_one.status->code(), Code::kAborted);
}

}  // namespace tutti::barrier_test

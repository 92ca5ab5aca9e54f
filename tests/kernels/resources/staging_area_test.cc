#include "tutti/kernels/resources/staging_area.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace tutti::staging_area_test {

TensorTuple number(std::int32_t value) { return {Tensor::scalar(value)}; }

struct Told {
  std::optional<Status> status;
  TensorTuple tuple;
  bool ok() const { return status && status->ok(); }
  std::int32_t value() const { return tuple.at(0).scalar<std::int32_t>(); }
  StagingArea::Done done() {
    return [this](Status s, TensorTuple t) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
      tuple = std::move(t);
    };
  }
};

class StagingAreaTest : public ::testing::Test {
 protected:
  void put(std::int32_t value, Told& told) { area_->put(number(value), cancellation_, told.done()); }

  Cancellation cancellation_;
  std::shared_ptr<StagingArea> area_ = std::make_shared<StagingArea>("s", StagingLimits{.tuples = 2});
};

TEST_F(StagingAreaTest, FirstInFirstOutWithinItsLimit) {
  Told first, second, third;
  put(1, first);
  put(2, second);
  put(3, third);
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(third.status) << "there is no room";
  for (std::int32_t expected : {1, 2, 3}) {
    Told got;
    area_->get(cancellation_, got.done());
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value(), expected);
  }
  EXPECT_TRUE(third.ok());
  EXPECT_EQ(area_->size(), 0);
}

TEST_F(StagingAreaTest, PeekersWaitForTheirIndexAndTakeNothing) {
  Told second, negative, stored;
  area_->peek(1, cancellation_, second.done());
  area_->peek(-1, cancellation_, negative.done());
  EXPECT_EQ(negative.status->code(), Code::kInvalidArgument);
  put(5, stored);
  EXPECT_FALSE(second.status);
  Told more;
  put(6, more);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value(), 6);
  EXPECT_EQ(area_->size(), 2);
}

TEST_F(StagingAreaTest, BytesAreLimited) {
  area_ = std::make_shared<StagingArea>("s", StagingLimits{.bytes = 8});
  Told small, other, huge, waiting;
  put(1, small);
  put(2, other);
  put(3, waiting);
  EXPECT_TRUE(small.ok() && other.ok());
  EXPECT_FALSE(waiting.status);
  area_->put({Tensor::vector<float>({1, 2, 3})}, cancellation_, huge.done());
  EXPECT_EQ(huge.status->code(), Code::kResourceExhausted);
  area_->clear();
  EXPECT_TRUE(waiting.ok());
  EXPECT_EQ(area_->size(), 1);
}

// The sizes are those that TensorFlow 2.15 says of the same tensors.
TEST_F(StagingAreaTest, StringsCountWithWhatTheyHold) {
  area_ = std::make_shared<StagingArea>("s", StagingLimits{.bytes = 1});
  const auto size_said = [&](const std::vector<std::string>& texts) {
    Told told;
    area_->put({Tensor::vector(std::span<const std::string>(texts))}, cancellation_, told.done());
    EXPECT_EQ(told.status->code(), Code::kResourceExhausted);
    return told.status->message();
  };
  EXPECT_NE(size_said({"abc"}).find("'27' bytes"), std::string::npos);
  EXPECT_NE(size_said({"", std::string(100, 'x'), "abcd"}).find("'176' bytes"), std::string::npos);

  area_ = std::make_shared<StagingArea>("s", StagingLimits{.bytes = 54});
  Told first, second, third, got;
  for (Told* told : {&first, &second, &third})
    area_->put({Tensor::scalar<std::string>("abc")}, cancellation_, told->done());
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(third.status) << "there is no room";
  area_->get(cancellation_, got.done());
  EXPECT_TRUE(third.ok());
}

TEST_F(StagingAreaTest, WaitersEndWhenCancelledOrReset) {
  Told got, peeked, late;
  area_->get(cancellation_, got.done());
  area_->peek(0, cancellation_, peeked.done());
  cancellation_.cancel(cancelled("enough"));
  EXPECT_EQ(got.status->code(), Code::kCancelled);
  EXPECT_EQ(peeked.status->code(), Code::kCancelled);
  area_->get(cancellation_, late.done());
  EXPECT_EQ(late.status->code(), Code::kCancelled);

  Cancellation other;
  Told waiting, after;
  area_->get(other, waiting.done());
  area_->abandon();
  EXPECT_EQ(waiting.status->code(), Code::kAborted);
  area_->put(number(1), other, after.done());
  EXPECT_EQ(after.status->code(), Code::kAborted);
}

TEST_F(StagingAreaTest, ManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        area_->put(number(i), cancellation_, [&](const Status& status, const TensorTuple&) { ended += status.ok(); });
        area_->get(cancellation_, [&](const Status& status, const TensorTuple& tuple) {
          ended += status.ok();
          sum += tuple.at(0).scalar<std::int32_t>();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended.load(), 2 * kThreads * kEach);
  EXPECT_EQ(sum.load(), std::int64_t{kThreads} * kEach * (kEach - 1) / 2);
}

}  // namespace tutti::staging_area_test

#include "tutti/transport/shm/internal/poller.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti::shm::poller_test {

using std::chrono::seconds;

class FakeInput : public Polled {
 public:
  std::atomic<bool> input{false};
  std::atomic<bool> comes_last{false};  // between the last look and the end
  std::atomic<bool> rings{true};

  void begin_polling() override { rings = false; }
  bool has_input() const override { return input; }
  bool end_polling() override {
    rings = true;
    return comes_last;
  }
  void take_input() override {}
};

const auto kNever = [] { return false; };

class PollerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "nobody looks on one core";
  }
  Poller poller_{true};
  const std::shared_ptr<FakeInput> a_ = std::make_shared<FakeInput>();
  const std::shared_ptr<FakeInput> b_ = std::make_shared<FakeInput>();
};

TEST_F(PollerTest, NobodyIsLookedAtWhoNeverSentAnything) {
  a_->input = true;
  EXPECT_TRUE(poller_.poll(seconds(10), kNever).empty());
  EXPECT_TRUE(a_->rings);
}

TEST_F(PollerTest, InputIsFoundAndOthersRingAgain) {
  poller_.came_in(a_);
  poller_.came_in(b_);
  b_->input = true;
  const auto found = poller_.poll(seconds(10), kNever);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], b_);
  EXPECT_TRUE(a_->rings);
}

TEST_F(PollerTest, WhatComesInTheLastMomentIsFoundToo) {
  poller_.came_in(a_);
  poller_.came_in(b_);
  b_->input = true;
  a_->comes_last = true;
  EXPECT_EQ(poller_.poll(seconds(10), kNever).size(), 2u);
}

TEST_F(PollerTest, ItEndsWhenThereIsEnough) {
  poller_.came_in(a_);
  EXPECT_TRUE(poller_.poll(seconds(10), [] { return true; }).empty());
  EXPECT_TRUE(a_->rings);
}

TEST_F(PollerTest, ItEndsWithItsPatience) {
  poller_.came_in(a_);
  EXPECT_TRUE(poller_.poll(std::chrono::microseconds(50), kNever).empty());
  EXPECT_TRUE(a_->rings);
}

TEST_F(PollerTest, WhatHasGoneIsNotLookedAt) {
  auto gone = std::make_shared<FakeInput>();
  gone->input = true;
  poller_.came_in(gone);
  gone.reset();
  EXPECT_TRUE(poller_.poll(seconds(10), kNever).empty());
}

TEST_F(PollerTest, OnlyOneThreadLooks) {
  poller_.came_in(a_);
  a_->input = false;
  std::size_t second = 1;
  poller_.poll(seconds(10), [&] {
    second = poller_.poll(seconds(10), kNever).size();
    return true;
  });
  EXPECT_EQ(second, 0u);
}

TEST_F(PollerTest, ADisabledOneNeverLooks) {
  Poller off(false);
  off.came_in(a_);
  off.came_in(a_);
  a_->input = true;
  EXPECT_EQ(off.patience().count(), 0);
  EXPECT_TRUE(off.poll(seconds(10), kNever).empty());
}

TEST_F(PollerTest, ASingleInputIsNoReasonToLook) {
  poller_.came_in(a_);
  EXPECT_EQ(poller_.patience().count(), 0);
}

}  // namespace tutti::shm::poller_test

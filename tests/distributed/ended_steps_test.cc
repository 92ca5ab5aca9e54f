#include "tutti/distributed/internal/ended_steps.h"

#include <gtest/gtest.h>

#include "tests/distributed/fake_worker.h"

namespace tutti::internal::ended_steps_test {

using Ids = std::vector<std::int64_t>;

class EndedStepsTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  const std::shared_ptr<testing::FakeWorker> worker_ = std::make_shared<testing::FakeWorker>("/job:w/task:0", 1);
  std::shared_ptr<EndedSteps> steps_ = std::make_shared<EndedSteps>(worker_, clock_);
};

TEST_F(EndedStepsTest, TheNextStepTakesThemAlong) {
  steps_->add(1);
  steps_->add(2);
  EXPECT_EQ(steps_->take(), (Ids{1, 2}));
  EXPECT_EQ(steps_->take(), Ids{});
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(worker_->cleanups.count(), 0u);
}

TEST_F(EndedStepsTest, WhenNoneComesTheWorkerIsToldSoon) {
  steps_->add(1);
  clock_.advance(std::chrono::milliseconds(50));
  steps_->add(2);
  clock_.advance(std::chrono::milliseconds(50));
  ASSERT_EQ(worker_->cleanups.count(), 2u);
  EXPECT_EQ(worker_->cleanups.request(0).step_id, 1);
  EXPECT_EQ(worker_->cleanups.request(1).step_id, 2);
  steps_->add(3);
  clock_.advance(std::chrono::milliseconds(100));
  EXPECT_EQ(worker_->cleanups.count(), 3u);
}

TEST_F(EndedStepsTest, TooManyAreToldAtOnce) {
  for (std::int64_t id = 0; id < 256; ++id) steps_->add(id);
  EXPECT_EQ(worker_->cleanups.count(), 256u);
  EXPECT_EQ(steps_->take(), Ids{});
}

TEST_F(EndedStepsTest, NothingIsToldWhenItsSessionIsGone) {
  steps_->add(1);
  steps_.reset();
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(worker_->cleanups.count(), 0u);
}

}  // namespace tutti::internal::ended_steps_test

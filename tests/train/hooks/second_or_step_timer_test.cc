#include "tutti/train/hooks/second_or_step_timer.h"

#include "tests/train/train_fixture.h"

namespace tutti::second_or_step_timer_test {

using namespace std::chrono_literals;
using test::thrown_by;

TEST(SecondOrStepTimerTest, WantsExactlyOneInterval) {
  EXPECT_EQ(thrown_by([] { SecondOrStepTimer({}, {}); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([] { SecondOrStepTimer(1.0, 1); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([] { SecondOrStepTimer(0.0, {}); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([] { SecondOrStepTimer({}, -1); }).code(), Code::kInvalidArgument);
}

TEST(SecondOrStepTimerTest, CountsSteps) {
  ManualClock clock;
  SecondOrStepTimer timer({}, 3);
  EXPECT_FALSE(timer.last_triggered_step().has_value());
  EXPECT_TRUE(timer.should_trigger_for_step(1, clock.now()));
  EXPECT_FALSE(timer.update_last_triggered_step(1, clock.now()).has_value());
  EXPECT_FALSE(timer.should_trigger_for_step(1, clock.now()));
  EXPECT_FALSE(timer.should_trigger_for_step(3, clock.now()));
  EXPECT_TRUE(timer.should_trigger_for_step(4, clock.now()));
  clock.advance(2s);
  const auto elapsed = timer.update_last_triggered_step(5, clock.now());
  ASSERT_TRUE(elapsed.has_value());
  EXPECT_EQ(elapsed->secs, 2);
  EXPECT_EQ(elapsed->steps, 4);
  EXPECT_EQ(timer.last_triggered_step(), 5);
  timer.reset();
  EXPECT_TRUE(timer.should_trigger_for_step(5, clock.now()));
}

TEST(SecondOrStepTimerTest, CountsSeconds) {
  ManualClock clock;
  SecondOrStepTimer timer(2.0, {});
  timer.update_last_triggered_step(1, clock.now());
  clock.advance(1999ms);
  EXPECT_FALSE(timer.should_trigger_for_step(100, clock.now()));
  clock.advance(1ms);
  EXPECT_FALSE(timer.should_trigger_for_step(1, clock.now()));  // never twice for a step
  EXPECT_TRUE(timer.should_trigger_for_step(2, clock.now()));
}

}  // namespace tutti::second_or_step_timer_test

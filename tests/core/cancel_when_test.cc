#include "tutti/core/cancel_when.h"

#include <gtest/gtest.h>

namespace tutti::cancel_when_test {

TEST(CancelWhenTest, PassesOnACauseUntilItStops) {
  Cancellation target;
  Cancellation other;
  CancelWhen when(target);
  when.cancelled(other);
  other.cancel(aborted("it broke"));
  EXPECT_EQ(target.status(), aborted("it broke"));

  Cancellation later_target;
  Cancellation later;
  {
    CancelWhen unheard(later_target);
    unheard.cancelled(later);
  }
  later.cancel(aborted("too late"));
  EXPECT_FALSE(later_target.cancelled());
}

TEST(CancelWhenTest, WhatIsCancelledAlreadyCancelsAtOnce) {
  Cancellation target;
  Cancellation other;
  other.cancel(aborted("before"));
  CancelWhen when(target);
  when.cancelled(other);
  EXPECT_EQ(target.status(), aborted("before"));
}

TEST(CancelWhenTest, CancelsAtATime) {
  ManualClock clock;
  Cancellation target;
  Cancellation in_time;
  CancelWhen when(target);
  when.reached(clock, clock.now() + std::chrono::seconds(1), deadline_exceeded("slow"));
  CancelWhen stopped(in_time);
  stopped.reached(clock, clock.now() + std::chrono::seconds(1), deadline_exceeded("slow"));
  stopped.stop();
  clock.advance(std::chrono::milliseconds(999));
  EXPECT_FALSE(target.cancelled());
  clock.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(target.status(), deadline_exceeded("slow"));
  EXPECT_FALSE(in_time.cancelled());
}

}  // namespace tutti::cancel_when_test

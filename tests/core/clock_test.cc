#include "tutti/core/clock.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tutti::clock_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SystemClock, TellsTheTime) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  const TimePoint first = clock->now();
  EXPECT_LE(first, clock->now());
  const std::int64_t year_2020 = 1'577'836'800'000'000;
  EXPECT_GT(clock->wall_micros(), year_2020);
}

TEST(SystemClock, RunsATimerOnItsOwnThreadNotBeforeItsTime) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  struct Seen {
    TimePoint time;
    std::thread::id thread;
    std::string thread_name;
  };
  std::promise<Seen> done;
  const TimePoint when = clock->now() + milliseconds(5);
  const Clock::TimerId id = clock->call_at(when, [&] {
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof name);
    done.set_value({clock->now(), std::this_thread::get_id(), name});
  });
  const Seen seen = done.get_future().get();
  EXPECT_GE(seen.time, when);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(seen.thread_name, "clock");
  EXPECT_FALSE(clock->cancel_timer(id));
}

TEST(SystemClock, RunsTimersInOrderOfTime) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  const TimePoint start = clock->now();
  std::vector<int> order;
  std::promise<void> done;
  const auto note = [&order](int i) { return [&order, i] { order.push_back(i); }; };
  // All are due by the time the last one is, whatever order the thread meets them in.
  std::promise<void> hold;
  clock->call_at(start - hours(1), [&hold] { hold.get_future().wait(); });
  clock->call_at(start - milliseconds(1), note(2));
  clock->call_at(start - milliseconds(2), note(1));
  clock->call_at(start - milliseconds(1), note(3));
  clock->call_at(start, [&done] { done.set_value(); });
  hold.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(SystemClock, AnEarlierTimerOvertakesALaterOne) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  const Clock::TimerId late = clock->call_at(clock->now() + hours(1), [] { FAIL(); });
  std::promise<void> done;
  clock->call_at(clock->now(), [&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_TRUE(clock->cancel_timer(late));
  EXPECT_FALSE(clock->cancel_timer(late));
}

TEST(SystemClock, TimersFarAwayDoNotHoldUpTheEnd) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  auto captured = std::make_shared<int>(0);
  clock->call_at(TimePoint::max(), [captured] { FAIL(); });
}

TEST(SystemClock, CancelWaitsForARunningTimer) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  std::latch started(1);
  std::promise<void> go_on;
  bool finished = false;  // not atomic: what cancel_timer promises is what orders it
  const Clock::TimerId id = clock->call_at(clock->now(), [&] {
    started.count_down();
    go_on.get_future().wait();
    finished = true;
  });
  started.wait();
  std::thread releaser([&] { go_on.set_value(); });
  EXPECT_FALSE(clock->cancel_timer(id));
  EXPECT_TRUE(finished);
  releaser.join();
}

TEST(SystemClock, ATimerMayCancelItselfAndSetOthers) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  std::promise<void> done;
  std::promise<Clock::TimerId> id;
  std::shared_future<Clock::TimerId> id_future = id.get_future().share();
  id.set_value(clock->call_at(clock->now() + milliseconds(1), [&, id_future] {
    EXPECT_FALSE(clock->cancel_timer(id_future.get()));
    clock->call_at(clock->now(), [&] { done.set_value(); });
  }));
  done.get_future().wait();
}

TEST(SystemClock, RaceOfTimerAndCancel) {
  const std::unique_ptr<Clock> clock = make_system_clock();
  for (int i = 0; i < 2000; ++i) {
    auto ran = std::make_unique<int>(0);
    const Clock::TimerId id = clock->call_at(clock->now() + std::chrono::microseconds(i % 20), [&ran] { ++*ran; });
    const bool removed = clock->cancel_timer(id);
    ASSERT_EQ(*ran, removed ? 0 : 1);
  }
}

TEST(ManualClock, StandsStill) {
  ManualClock clock;
  const TimePoint start = clock.now();
  const std::int64_t wall = clock.wall_micros();
  EXPECT_EQ(clock.now(), start);
  clock.advance(seconds(2));
  EXPECT_EQ(clock.now(), start + seconds(2));
  EXPECT_EQ(clock.wall_micros(), wall + 2'000'000);
}

TEST(ManualClock, RunsWhatFallsDueInOrder) {
  ManualClock clock;
  const TimePoint start = clock.now();
  std::vector<int> order;
  const auto note = [&](int i, Duration at) {
    return clock.call_at(start + at, [&order, &clock, i, start, at] {
      EXPECT_EQ(clock.now(), start + at);
      order.push_back(i);
    });
  };
  note(3, seconds(3));
  note(1, seconds(1));
  note(2, seconds(1));  // the same time: in the order of setting
  note(4, seconds(10));
  EXPECT_TRUE(order.empty());
  clock.advance(seconds(3));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  clock.advance(seconds(7) - Duration(1));
  EXPECT_EQ(order.size(), 3u);
  clock.advance(Duration(1));
  EXPECT_EQ(order.back(), 4);
}

TEST(ManualClock, PastTimersRunAtTheNextAdvance) {
  ManualClock clock;
  const TimePoint start = clock.now();
  bool ran = false;
  clock.call_at(start - seconds(5), [&] {
    ran = true;
    EXPECT_EQ(clock.now(), start);  // time does not go back
  });
  EXPECT_FALSE(ran);
  clock.advance(Duration(0));
  EXPECT_TRUE(ran);
}

TEST(ManualClock, ATimerThatSetsItselfAgainTicks) {
  ManualClock clock;
  int ticks = 0;
  std::function<void()> tick = [&] {
    ++ticks;
    clock.call_at(clock.now() + seconds(1), tick);
  };
  clock.call_at(clock.now() + seconds(1), tick);
  clock.advance(seconds(10));
  EXPECT_EQ(ticks, 10);
}

TEST(ManualClock, Cancel) {
  ManualClock clock;
  const Clock::TimerId removed = clock.call_at(clock.now() + seconds(1), [] { FAIL(); });
  Clock::TimerId self = 0;
  self = clock.call_at(clock.now() + seconds(2), [&] { EXPECT_FALSE(clock.cancel_timer(self)); });
  EXPECT_TRUE(clock.cancel_timer(removed));
  clock.advance(seconds(5));
  EXPECT_FALSE(clock.cancel_timer(self));
  EXPECT_FALSE(clock.cancel_timer(12345));
}

TEST(ManualClock, CancelWaitsForATimerOnAnotherThread) {
  ManualClock clock;
  std::latch started(1);
  std::promise<void> go_on;
  bool finished = false;
  const Clock::TimerId id = clock.call_at(clock.now() + seconds(1), [&] {
    started.count_down();
    go_on.get_future().wait();
    finished = true;
  });
  std::thread driver([&] { clock.advance(seconds(1)); });
  started.wait();
  std::thread releaser([&] { go_on.set_value(); });
  EXPECT_FALSE(clock.cancel_timer(id));
  EXPECT_TRUE(finished);
  driver.join();
  releaser.join();
}

}  // namespace tutti::clock_test

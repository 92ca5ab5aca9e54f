#include "tutti/train/coordinator.h"

#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/train/train_fixture.h"
#include "tutti/train/looper_thread.h"

namespace tutti::coordinator_test {

using namespace std::chrono_literals;
using test::thrown_by;

TEST(CoordinatorTest, StopsAllAndKeepsTheFirstError) {
  ManualClock clock;
  Coordinator coordinator(clock);
  std::promise<void> failed;
  coordinator.start_thread("failing", [&] {
    failed.get_future().wait();
    throw_error(data_loss("the first"));
  });
  coordinator.start_thread("waiting", [&] {
    coordinator.wait_for_stop();
    throw_error(internal_error("a consequence"));
  });
  EXPECT_FALSE(coordinator.should_stop());
  failed.set_value();
  EXPECT_EQ(thrown_by([&] { coordinator.join(); }), data_loss("the first"));
  EXPECT_TRUE(coordinator.should_stop());
  EXPECT_TRUE(coordinator.joined());
  EXPECT_EQ(coordinator.requested_error(), data_loss("the first"));
}

TEST(CoordinatorTest, TheEndOfTheInputIsAStopWithoutAnError) {
  ManualClock clock;
  Coordinator coordinator(clock);
  coordinator.start_thread("reader", [] { throw_error(out_of_range("no more")); });
  coordinator.join();
  EXPECT_TRUE(coordinator.should_stop());
  Coordinator strict(clock, {});
  strict.start_thread("reader", [] { throw_error(out_of_range("no more")); });
  EXPECT_EQ(thrown_by([&] { strict.join(); }).code(), Code::kOutOfRange);
}

TEST(CoordinatorTest, OtherExceptionsBecomeErrors) {
  ManualClock clock;
  Coordinator coordinator(clock);
  coordinator.stop_on_exception([] { throw std::runtime_error("of the standard library"); });
  EXPECT_EQ(coordinator.requested_error(), Status(Code::kUnknown, "of the standard library"));
}

TEST(CoordinatorTest, JoinNamesThreadsThatStayBeyondTheGracePeriod) {
  ManualClock clock;
  Coordinator coordinator(clock);
  std::promise<void> leave;
  std::shared_future<void> left = leave.get_future().share();
  coordinator.start_thread("quick", [] {});
  coordinator.start_thread("stubborn", [left] { left.wait(); });
  const Coordinator::Registration foreign = coordinator.register_thread("foreign");
  coordinator.request_stop();
  // Time passes only here, so that join has to wait for it.
  auto joined = std::async(std::launch::async, [&] { return thrown_by([&] { coordinator.join({30s}); }); });
  while (joined.wait_for(1ms) != std::future_status::ready) clock.advance(1s);
  const Status status = joined.get();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("threads still running: stubborn foreign"), std::string::npos) << status.message();
  EXPECT_EQ(coordinator.running(), (std::vector<std::string>{"stubborn", "foreign"}));
  auto ignoring = std::async(std::launch::async, [&] { coordinator.join({30s, true}); });
  while (ignoring.wait_for(1ms) != std::future_status::ready) clock.advance(1s);
  ignoring.get();
  leave.set_value();
}

TEST(CoordinatorTest, JoinWithoutAStopWaitsForTheThreads) {
  ManualClock clock;
  Coordinator coordinator(clock);
  std::atomic<bool> done = false;
  coordinator.start_thread("worker", [&] { done = true; });
  coordinator.join({0s});
  EXPECT_TRUE(done);
  EXPECT_FALSE(coordinator.should_stop());
}

TEST(CoordinatorTest, AnErrorAfterJoinIsThrownAtOnceAndClearStopBeginsAnew) {
  ManualClock clock;
  Coordinator coordinator(clock);
  coordinator.request_stop();
  coordinator.join();
  EXPECT_EQ(thrown_by([&] { coordinator.request_stop(data_loss("late")); }), data_loss("late"));
  coordinator.clear_stop();
  EXPECT_FALSE(coordinator.should_stop());
  EXPECT_FALSE(coordinator.joined());
  coordinator.request_stop(data_loss("another"));
  EXPECT_EQ(thrown_by([&] { coordinator.join(); }), data_loss("another"));
}

TEST(CoordinatorTest, WaitForStopEndsWithItsTime) {
  ManualClock clock;
  Coordinator coordinator(clock);
  EXPECT_FALSE(coordinator.wait_for_stop(0s));
  auto waited = std::async(std::launch::async, [&] { return coordinator.wait_for_stop(10s); });
  while (waited.wait_for(1ms) != std::future_status::ready) clock.advance(1s);
  EXPECT_FALSE(waited.get());
  auto stopped = std::async(std::launch::async, [&] { return coordinator.wait_for_stop(10s); });
  coordinator.request_stop();
  EXPECT_TRUE(stopped.get());
}

TEST(LooperThreadTest, CallsAgainAndAgainUntilTheStop) {
  ManualClock clock;
  Coordinator coordinator(clock);
  std::atomic<int> calls = 0;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  start_looper(coordinator, clock,
               [&] {
                 if (++calls == 5) coordinator.request_stop();
               },
               {.start = [&] { ++begun; }, .stop = [&] { ++ended; }});
  coordinator.join();
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(ended, 1);
}

TEST(LooperThreadTest, CallsAtItsInterval) {
  ManualClock clock;
  Coordinator coordinator(clock);
  Mutex mu;
  std::vector<TimePoint> times;
  const TimePoint start = clock.now();
  start_looper(coordinator, clock,
               [&] {
                 MutexLock lock(mu);
                 times.push_back(clock.now());
                 if (times.size() == 3) coordinator.request_stop();
               },
               {.interval = 10s});
  auto joined = std::async(std::launch::async, [&] { coordinator.join(); });
  while (joined.wait_for(1ms) != std::future_status::ready) clock.advance(1s);
  joined.get();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_GE(times[1] - start, 10s);
  EXPECT_GE(times[2] - start, 20s);
}

TEST(LooperThreadTest, WhatItThrowsStopsTheOthers) {
  ManualClock clock;
  Coordinator coordinator(clock);
  start_looper(coordinator, clock, [] { throw_error(aborted("looked at something gone")); });
  EXPECT_EQ(thrown_by([&] { coordinator.join(); }).code(), Code::kAborted);
}

}  // namespace tutti::coordinator_test

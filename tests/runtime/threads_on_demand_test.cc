#include "tutti/runtime/threads_on_demand.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

namespace tutti::threads_on_demand_test {

TEST(ThreadsOnDemand, WorkThatWaitsHoldsUpNobody) {
  constexpr int kWaiting = 7;
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::atomic<int> ended{0};
  {
    ThreadsOnDemand threads("test", kWaiting + 1);
    std::latch waiting(kWaiting);
    for (int i = 0; i < kWaiting; ++i) {
      threads.run([&] {
        waiting.count_down();
        opened.wait();
        ++ended;
      });
    }
    waiting.wait();
    std::promise<void> served;
    threads.run([&] { served.set_value(); });
    served.get_future().wait();
    EXPECT_EQ(ended, 0);
    open.set_value();
  }
  EXPECT_EQ(ended, kWaiting) << "the destructor waits for all work";
}

TEST(ThreadsOnDemand, MoreWorkThanThreadsWaitsForItsTurn) {
  std::atomic<int> at_once{0}, most{0}, ended{0};
  {
    ThreadsOnDemand threads("test", 3);
    for (int i = 0; i < 100; ++i) {
      threads.run([&] {
        const int now = ++at_once;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --at_once;
        ++ended;
      });
    }
  }
  EXPECT_EQ(ended, 100);
  EXPECT_LE(most, 3);
}

}  // namespace tutti::threads_on_demand_test

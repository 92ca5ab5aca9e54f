#include "tutti/runtime/internal/resume.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace tutti::internal::resume_test {

// Does what it is told when it goes on.
struct TestRun : WaitingRun {
  explicit TestRun(std::function<void(std::vector<int>)> what) : does(std::move(what)) {}
  void go_on(std::vector<int> ready) override { does(std::move(ready)); }
  std::function<void(std::vector<int>)> does;
};

// The end of a wait that makes this ready.
EndWait readies(int what) {
  return [what](std::vector<int>& ready) { ready.push_back(what); };
}

TEST(Resume, RunsGoOnInThePool) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  TestRun run([&](const std::vector<int>& ready) {
    EXPECT_EQ(ready, std::vector<int>{7});
    on_pool.set_value(pool.on_pool_thread());
  });
  resume(pool, run, readies(7));
  EXPECT_TRUE(on_pool.get_future().get());
}

TEST(Resume, OrOnAThreadThatOffersItselfAtTheEnd) {
  ThreadPool pool("resume", 1);
  // A thread that the system puts aside between the two takes long, and then the second goes to the pool.
  bool both_here = false;
  for (int tries = 0; tries < 1000 && !both_here; ++tries) {
    std::promise<std::thread::id> second;
    std::thread::id first;
    TestRun later([&](const std::vector<int>&) { second.set_value(std::this_thread::get_id()); });
    TestRun run([&](const std::vector<int>&) {
      first = std::this_thread::get_id();
      resume(pool, later, readies(0));
    });
    {
      const ResumeHere here(/*may_run=*/true);
      resume(pool, run, readies(0));
      EXPECT_EQ(first, std::thread::id());
    }
    ASSERT_EQ(first, std::this_thread::get_id());
    both_here = second.get_future().get() == first;
  }
  EXPECT_TRUE(both_here);
}

TEST(Resume, ARunGoesOnOnceWithAllThatBecameReady) {
  ThreadPool pool("resume", 1);
  std::vector<std::vector<int>> went_on;
  TestRun run([&](std::vector<int> ready) { went_on.push_back(std::move(ready)); });
  {
    const ResumeHere here(/*may_run=*/true);
    resume(pool, run, readies(1));
    resume(pool, run, [](std::vector<int>&) {});
    resume(pool, run, readies(2));
  }
  EXPECT_EQ(went_on, (std::vector<std::vector<int>>{{1, 2}}));
}

TEST(Resume, WaitsEndHereThoughTheRunMayNotGoOnHere) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  TestRun run([&](const std::vector<int>&) { on_pool.set_value(pool.on_pool_thread()); });
  std::thread::id ended;
  {
    const ResumeHere here(/*may_run=*/false);
    resume(pool, run, [&](std::vector<int>& ready) {
      ended = std::this_thread::get_id();
      ready.push_back(0);
    });
  }
  EXPECT_EQ(ended, std::this_thread::get_id());
  EXPECT_TRUE(on_pool.get_future().get());
}

TEST(Resume, ARunInWhichNothingBecameReadyNeedsNoThread) {
  TestRun run([](const std::vector<int>&) { ADD_FAILURE() << "it went on"; });
  ThreadPool pool("resume", 1);  // ends first, with all that it was given
  resume(pool, run, [](std::vector<int>&) {});
  const ResumeHere here(/*may_run=*/false);
  resume(pool, run, [](std::vector<int>&) {});
}

TEST(Resume, WhatFollowsALongRunGoesToThePool) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  TestRun slow([](const std::vector<int>&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  TestRun next([&](const std::vector<int>&) { on_pool.set_value(pool.on_pool_thread()); });
  {
    const ResumeHere here(/*may_run=*/true);
    resume(pool, slow, readies(0));
    resume(pool, next, readies(0));
  }
  EXPECT_TRUE(on_pool.get_future().get());
}

}  // namespace tutti::internal::resume_test

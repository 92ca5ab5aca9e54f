#include "tutti/runtime/internal/resume.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace tutti::internal::resume_test {

TEST(Resume, RunsGoOnInThePool) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  resume(pool, [&] { on_pool.set_value(pool.on_pool_thread()); });
  EXPECT_TRUE(on_pool.get_future().get());
}

TEST(Resume, OrOnAThreadThatOffersItselfAtTheEnd) {
  ThreadPool pool("resume", 1);
  // A thread that the system puts aside between the two takes long, and then the second goes to the pool.
  bool both_here = false;
  for (int tries = 0; tries < 1000 && !both_here; ++tries) {
    std::promise<std::thread::id> second;
    std::thread::id first;
    {
      const ResumeHere here;
      resume(pool, [&] {
        first = std::this_thread::get_id();
        resume(pool, [&] { second.set_value(std::this_thread::get_id()); });
      });
      EXPECT_EQ(first, std::thread::id());
    }
    ASSERT_EQ(first, std::this_thread::get_id());
    both_here = second.get_future().get() == first;
  }
  EXPECT_TRUE(both_here);
}

TEST(Resume, WhatFollowsALongRunGoesToThePool) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  {
    const ResumeHere here;
    resume(pool, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
    resume(pool, [&] { on_pool.set_value(pool.on_pool_thread()); });
  }
  EXPECT_TRUE(on_pool.get_future().get());
}

}  // namespace tutti::internal::resume_test

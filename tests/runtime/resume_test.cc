#include "tutti/runtime/internal/resume.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace tutti::internal {
namespace {

TEST(Resume, RunsGoOnInThePool) {
  ThreadPool pool("resume", 1);
  std::promise<bool> on_pool;
  resume(pool, [&] { on_pool.set_value(pool.on_pool_thread()); });
  EXPECT_TRUE(on_pool.get_future().get());
}

TEST(Resume, OrOnAThreadThatOffersItselfAtTheEnd) {
  ThreadPool pool("resume", 1);
  std::vector<std::thread::id> where;
  {
    const ResumeHere here;
    resume(pool, [&] {
      where.push_back(std::this_thread::get_id());
      resume(pool, [&] { where.push_back(std::this_thread::get_id()); });
    });
    EXPECT_TRUE(where.empty());
  }
  EXPECT_EQ(where, (std::vector(2, std::this_thread::get_id())));
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

}  // namespace
}  // namespace tutti::internal

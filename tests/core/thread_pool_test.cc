#include "tutti/core/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <set>

namespace tutti::thread_pool_test {

std::string thread_name() {
  char name[16];
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

// Runs one piece of work on each thread of the pool at the same time.
void on_every_thread(ThreadPool& pool, const std::function<void()>& work) {
  std::latch all(pool.num_threads());
  std::latch done(pool.num_threads());
  for (int i = 0; i < pool.num_threads(); ++i) {
    pool.schedule([&] {
      all.arrive_and_wait();
      work();
      done.count_down();
    });
  }
  done.wait();
}

TEST(ThreadPool, ThreadsAreNamed) {
  const auto names_of = [](const std::string& pool_name, int num_threads) {
    ThreadPool pool(pool_name, num_threads);
    Mutex mu;
    std::set<std::string> names;
    on_every_thread(pool, [&] {
      MutexLock lock(mu);
      names.insert(thread_name());
    });
    return names;
  };
  EXPECT_EQ(names_of("compute", 3), (std::set<std::string>{"compute/0", "compute/1", "compute/2"}));
  EXPECT_EQ(names_of("a_very_long_pool_name", 2), (std::set<std::string>{"a_very_long_p/0", "a_very_long_p/1"}));
}

TEST(ThreadPool, OneThreadRunsOldestFirst) {
  std::vector<int> order;
  {
    ThreadPool pool("serial", 1);
    EXPECT_EQ(pool.num_threads(), 1);
    for (int i = 0; i < 100; ++i) pool.schedule([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(ThreadPool, AllThreadsWorkAtOnce) {
  ThreadPool pool("wide", 4);
  on_every_thread(pool, [] {});  // returns only if four run at the same time
}

TEST(ThreadPool, TheDestructorRunsWhatWasScheduled) {
  std::atomic<int> ran = 0;
  std::promise<void> go_on;
  {
    ThreadPool pool("drain", 2);
    std::shared_future<void> gate = go_on.get_future().share();
    for (int i = 0; i < 2; ++i) pool.schedule([gate] { gate.wait(); });
    for (int i = 0; i < 1000; ++i) pool.schedule([&ran] { ++ran; });
    go_on.set_value();
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, WorkMaySchedule) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("nested", 2);
    for (int i = 0; i < 10; ++i) {
      pool.schedule([&pool, &ran] {
        ++ran;
        pool.schedule([&ran] { ++ran; });  // perhaps after the destructor began
      });
    }
  }
  EXPECT_EQ(ran, 20);
}

TEST(ThreadPool, ManyThreadsSchedule) {
  constexpr int kProducers = 4;
  constexpr int kEach = 5000;
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("busy", 3);
    std::vector<std::thread> producers;
    for (int i = 0; i < kProducers; ++i) {
      producers.emplace_back([&] {
        for (int j = 0; j < kEach; ++j) pool.schedule([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
      });
    }
    for (std::thread& producer : producers) producer.join();
  }
  EXPECT_EQ(ran, kProducers * kEach);
}

TEST(ThreadPool, KnowsItsThreads) {
  ThreadPool pool("mine", 2);
  ThreadPool other("other", 1);
  EXPECT_FALSE(pool.on_pool_thread());
  on_every_thread(pool, [&] {
    EXPECT_TRUE(pool.on_pool_thread());
    EXPECT_FALSE(other.on_pool_thread());
  });
  on_every_thread(other, [&] { EXPECT_FALSE(pool.on_pool_thread()); });
}

TEST(ThreadPool, WorkIsDestroyedOnceItRan) {
  auto captured = std::make_shared<int>(0);
  std::weak_ptr<int> watcher = captured;
  {
    ThreadPool pool("drop", 1);
    pool.schedule([captured = std::move(captured)] {});
    std::promise<bool> expired;
    pool.schedule([&] { expired.set_value(watcher.expired()); });
    EXPECT_TRUE(expired.get_future().get());
  }
}

TEST(ThreadPoolDeathTest, NeedsAThread) { EXPECT_DEATH(ThreadPool("none", 0), "\"none\" of 0 threads"); }

}  // namespace tutti::thread_pool_test

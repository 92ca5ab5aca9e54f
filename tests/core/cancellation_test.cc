#include "tutti/core/cancellation.h"

#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace tutti::cancellation_test {

TEST(Cancellation, StartsNotCancelled) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.cancelled());
  EXPECT_TRUE(cancellation.status().ok());
}

TEST(Cancellation, KeepsTheFirstCause) {
  Cancellation cancellation;
  cancellation.cancel(aborted("first"));
  cancellation.cancel(cancelled("second"));
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(cancellation.status(), aborted("first"));
}

TEST(Cancellation, RunsCallbacksOnceOnTheCallersThread) {
  Cancellation cancellation;
  std::vector<int> ran;
  const std::thread::id caller = std::this_thread::get_id();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(cancellation.register_callback([&, i] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_EQ(cancellation.status(), aborted("why"));  // no lock held
      ran.push_back(i);
    }),
              0u);
  }
  cancellation.cancel(aborted("why"));
  cancellation.cancel(aborted("again"));
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2}));
}

TEST(Cancellation, RegisteringTooLateIsRefused) {
  Cancellation cancellation;
  cancellation.cancel(aborted("why"));
  bool ran = false;
  EXPECT_EQ(cancellation.register_callback([&] { ran = true; }), 0u);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(cancellation.deregister(0));
}

TEST(Cancellation, RegisteringFromACallbackIsRefused) {
  Cancellation cancellation;
  Cancellation::Token token = 99;
  cancellation.register_callback([&] { token = cancellation.register_callback([] {}); });
  cancellation.cancel(aborted("why"));
  EXPECT_EQ(token, 0u);
}

TEST(Cancellation, DeregisteredCallbacksDoNotRun) {
  Cancellation cancellation;
  auto captured = std::make_shared<int>(1);
  bool ran = false;
  const Cancellation::Token token = cancellation.register_callback([&ran, captured] { ran = true; });
  EXPECT_EQ(captured.use_count(), 2);
  EXPECT_TRUE(cancellation.deregister(token));
  EXPECT_EQ(captured.use_count(), 1);
  EXPECT_FALSE(cancellation.deregister(token));
  cancellation.cancel(aborted("why"));
  EXPECT_FALSE(ran);
}

TEST(Cancellation, DeregisterAfterTheRunSaysSo) {
  Cancellation cancellation;
  const Cancellation::Token token = cancellation.register_callback([] {});
  cancellation.cancel(aborted("why"));
  EXPECT_FALSE(cancellation.deregister(token));
}

TEST(Cancellation, ACallbackMayDeregisterItselfAndLaterOnes) {
  Cancellation cancellation;
  Cancellation::Token first = 0;
  Cancellation::Token second = 0;
  bool second_ran = false;
  first = cancellation.register_callback([&] {
    EXPECT_FALSE(cancellation.deregister(first));  // runs now: no waiting for itself
    EXPECT_TRUE(cancellation.deregister(second));  // has not begun
  });
  second = cancellation.register_callback([&] { second_ran = true; });
  cancellation.cancel(aborted("why"));
  EXPECT_FALSE(second_ran);
}

TEST(Cancellation, DeregisterWaitsForTheRunningCallback) {
  Cancellation cancellation;
  std::latch started(1);
  std::promise<void> go_on;
  bool finished = false;  // not atomic: what deregister promises is what orders it
  const Cancellation::Token token = cancellation.register_callback([&] {
    started.count_down();
    go_on.get_future().wait();
    finished = true;
  });
  std::thread canceller([&] { cancellation.cancel(aborted("why")); });
  started.wait();
  std::thread releaser([&] { go_on.set_value(); });
  EXPECT_FALSE(cancellation.deregister(token));
  EXPECT_TRUE(finished);
  canceller.join();
  releaser.join();
}

TEST(Cancellation, DeregisterDoesNotWaitForOthers) {
  Cancellation cancellation;
  std::latch started(1);
  std::promise<void> go_on;
  cancellation.register_callback([&] {
    started.count_down();
    go_on.get_future().wait();
  });
  const Cancellation::Token waiting = cancellation.register_callback([] { FAIL() << "deregistered before its turn"; });
  std::thread canceller([&] { cancellation.cancel(aborted("why")); });
  started.wait();
  EXPECT_TRUE(cancellation.deregister(waiting));  // while the first one still runs
  go_on.set_value();
  canceller.join();
}

// Whatever the order: either deregister says that it did not run and it did not, or it has run to its end.
TEST(Cancellation, RaceOfCancelAndDeregister) {
  for (int i = 0; i < 2000; ++i) {
    Cancellation cancellation;
    auto state = std::make_unique<int>(0);  // freed right after deregister, as a caller's stack would be
    const Cancellation::Token token = cancellation.register_callback([&] { ++*state; });
    std::latch both(2);
    std::thread canceller([&] {
      both.arrive_and_wait();
      cancellation.cancel(aborted("why"));
    });
    both.arrive_and_wait();
    const bool removed = cancellation.deregister(token);
    ASSERT_EQ(*state, removed ? 0 : 1);
    state.reset();
    canceller.join();
  }
}

TEST(Cancellation, RaceOfManyUsers) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 50; ++round) {
    Cancellation cancellation;
    std::atomic<int> ran = 0;
    std::atomic<int> expected = 0;
    std::latch start(kThreads + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        while (true) {
          const Cancellation::Token token = cancellation.register_callback([&] { ++ran; });
          if (token == 0) break;
          if (!cancellation.deregister(token)) ++expected;
        }
        EXPECT_FALSE(cancellation.status().ok());
      });
    }
    start.arrive_and_wait();
    cancellation.cancel(aborted("why"));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ran, expected);
  }
}

TEST(Cancellation, OnlyOneCancelWins) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    int ran = 0;
    cancellation.register_callback([&] { ++ran; });
    std::latch both(2);
    std::thread other([&] {
      both.arrive_and_wait();
      cancellation.cancel(aborted("other"));
    });
    both.arrive_and_wait();
    cancellation.cancel(aborted("mine"));
    other.join();
    EXPECT_EQ(ran, 1);
  }
}

TEST(Cancellation, ChildrenFollowTheParent) {
  Cancellation parent;
  Cancellation child(parent);
  Cancellation grandchild(child);
  bool ran = false;
  grandchild.register_callback([&] { ran = true; });
  parent.cancel(unavailable("ps:0 is gone"));
  EXPECT_EQ(child.status(), unavailable("ps:0 is gone"));
  EXPECT_EQ(grandchild.status(), unavailable("ps:0 is gone"));
  EXPECT_TRUE(ran);
}

TEST(Cancellation, TheParentDoesNotFollowItsChildren) {
  Cancellation parent;
  Cancellation child(parent);
  child.cancel(aborted("child"));
  EXPECT_FALSE(parent.cancelled());
  parent.cancel(aborted("parent"));
  EXPECT_EQ(child.status(), aborted("child"));
}

TEST(Cancellation, AChildOfACancelledParentIsBornCancelled) {
  Cancellation parent;
  parent.cancel(aborted("why"));
  Cancellation child(parent);
  EXPECT_EQ(child.status(), aborted("why"));
}

TEST(Cancellation, AChildMayGoFirst) {
  Cancellation parent;
  { const Cancellation child(parent); }
  parent.cancel(aborted("why"));
}

TEST(Cancellation, RaceOfParentCancelAndChildDestruction) {
  for (int i = 0; i < 1000; ++i) {
    Cancellation parent;
    std::optional<Cancellation> child(std::in_place, parent);
    int ran = 0;
    child->register_callback([&] { ++ran; });
    std::latch both(2);
    std::thread canceller([&] {
      both.arrive_and_wait();
      parent.cancel(aborted("why"));
    });
    both.arrive_and_wait();
    child.reset();
    const int ran_before = ran;
    canceller.join();
    ASSERT_EQ(ran, ran_before);  // nothing runs after the destructor
  }
}

TEST(CancellationDeathTest, NeedsACause) {
  Cancellation cancellation;
  EXPECT_DEATH(cancellation.cancel(Status()), "without a cause");
}

}  // namespace tutti::cancellation_test

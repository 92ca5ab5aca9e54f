#include "tutti/runtime/held_work.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tutti::held_work_test {

TEST(HeldWork, NothingIsHeldWithoutOne) {
  EXPECT_FALSE(HeldWork::hold([] {}));
}

TEST(HeldWork, WorkWaitsForTheEndOfTheOutermost) {
  int done = 0;
  {
    const HeldWork outer;
    {
      const HeldWork inner;
      ASSERT_TRUE(HeldWork::hold([&done] { ++done; }));
    }
    EXPECT_EQ(done, 0);
  }
  EXPECT_EQ(done, 1);
}

TEST(HeldWork, ItIsDoneBeforeWhatIsLong) {
  int done = 0;
  const HeldWork held;
  ASSERT_TRUE(HeldWork::hold([&done] { ++done; }));
  HeldWork::run_now();
  EXPECT_EQ(done, 1);
  HeldWork::run_now();
  EXPECT_EQ(done, 1);
}

TEST(HeldWork, WhoComesLateDoesItAll) {
  int done = 0;
  const HeldWork held;
  ASSERT_TRUE(HeldWork::hold([&done] { ++done; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(HeldWork::hold([&done] { ++done; }));
  EXPECT_EQ(done, 2);
}

TEST(HeldWork, WhatNobodyIsInAHurryForWaitsForTheEnd) {
  EXPECT_FALSE(HeldWork::hold_to_end([] {}));
  EXPECT_FALSE(HeldWork::waits());
  std::string order;
  {
    const HeldWork held;
    ASSERT_TRUE(HeldWork::hold_to_end([&order] { order += 'e'; }));
    EXPECT_FALSE(HeldWork::waits());
    ASSERT_TRUE(HeldWork::hold([&order] { order += 'w'; }));
    EXPECT_TRUE(HeldWork::waits());
    HeldWork::run_now();
    EXPECT_EQ(order, "w");
    HeldWork::run_all();
    EXPECT_EQ(order, "we");
    ASSERT_TRUE(HeldWork::hold_to_end([&order] {
      EXPECT_TRUE(HeldWork::hold_to_end([&order] { order += 'l'; }));
      EXPECT_TRUE(HeldWork::hold([&order] { order += 'm'; }));
    }));
  }
  EXPECT_EQ(order, "weml");
}

TEST(HeldWork, WorkMayHoldMore) {
  int done = 0;
  {
    const HeldWork held;
    ASSERT_TRUE(HeldWork::hold([&done] { EXPECT_TRUE(HeldWork::hold([&done] { ++done; })); }));
  }
  EXPECT_EQ(done, 1);
}

}  // namespace tutti::held_work_test

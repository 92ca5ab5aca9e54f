#include "tutti/runtime/held_work.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti {
namespace {

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

TEST(HeldWork, WorkMayHoldMore) {
  int done = 0;
  {
    const HeldWork held;
    ASSERT_TRUE(HeldWork::hold([&done] { EXPECT_TRUE(HeldWork::hold([&done] { ++done; })); }));
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace tutti

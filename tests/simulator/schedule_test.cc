#include "schedule.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tutti::sim::schedule_test {

// TUTTI_SCHEDULES: how many, for long runs.
std::uint64_t schedules() {
  const char* count = std::getenv("TUTTI_SCHEDULES");
  return count != nullptr ? std::strtoull(count, nullptr, 10) : 2000;
}

TEST(Schedule, NothingGoesWrong) {
  std::int64_t succeeded = 0, failed = 0;
  for (std::uint64_t seed = 1; seed <= schedules(); ++seed) {
    const ScheduleResult result = run_schedule(seed);
    ASSERT_TRUE(result.violations.empty()) << result.violations[0] << "\nsimulate replay " << seed << " tells it";
    succeeded += result.steps_succeeded;
    failed += result.steps_failed;
  }
  // The runs were neither quiet nor hopeless.
  EXPECT_GT(succeeded, static_cast<std::int64_t>(10 * schedules()));
  EXPECT_GT(failed, static_cast<std::int64_t>(schedules() / 10));
}

TEST(Schedule, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed : {3u, 4u, 5u}) {
    std::vector<std::string> first, second;
    ScheduleOptions options;
    options.trace = [&](const std::string& line) { first.push_back(line); };
    run_schedule(seed, options);
    options.trace = [&](const std::string& line) { second.push_back(line); };
    run_schedule(seed, options);
    EXPECT_EQ(first, second);
    EXPECT_FALSE(first.empty());
  }
}

// A simulator that finds nothing must be able to: each mistake is found within some schedules.
class PlantedBug : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, IsFound) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    ScheduleOptions options;
    options.planted = GetParam();
    if (!run_schedule(seed, options).violations.empty()) return;
  }
  FAIL() << "2000 schedules found nothing";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug,
                         ::testing::Values(Planted::kRepeatsAreServed, Planted::kStepsMixed, Planted::kNoCleanup,
                                           Planted::kSessionsSurviveCrash, Planted::kErrorsUnanswered,
                                           Planted::kPeersDoubted, Planted::kClientsImmortal, Planted::kLeasesShort));

}  // namespace tutti::sim::schedule_test

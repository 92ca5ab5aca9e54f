#include "tutti/core/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/threads.h"

namespace tutti::team_test {

TEST(Team, RunsEveryPieceOnce) {
  for (int size : {1, 2, 5}) {
    Team team(size);
    EXPECT_EQ(team.size(), size);
    for (int pieces : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(pieces));
      team.run(pieces, [&](int i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1) << pieces << " pieces, team of " << size;
    }
  }
}

TEST(Team, GrainsOfTestsAreSmall) {
  EXPECT_EQ(Team(2).grain(32768), 32768);
  EXPECT_EQ(Team(2, LoopCut::kWhereverPossible).grain(32768), 1);
}

TEST(Team, HelpersTakePart) {
  Team team(3);
  std::latch all(3);  // passes only when three threads are in pieces at once
  std::vector<std::thread::id> threads(3);
  team.run(3, [&](int i) {
    threads[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    all.arrive_and_wait();
  });
  EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 3u);
}

TEST(Team, HelpersFlushDenormals) {
  Team team(2);
  std::latch both(2);
  float halves[2] = {1, 1};
  volatile float smallest = std::numeric_limits<float>::min();
  const std::thread::id caller = std::this_thread::get_id();
  team.run(2, [&](int i) {
    both.arrive_and_wait();
    if (std::this_thread::get_id() != caller) halves[i] = smallest * 0.5f;
  });
  EXPECT_EQ(halves[0] * halves[1], 0);
}

// On whichever thread it was thrown, and with the other pieces done.
TEST(Team, WhatAPieceThrowsReachesTheCaller) {
  Team team(2);
  const std::thread::id caller = std::this_thread::get_id();
  for (const bool by_helper : {false, true}) {
    std::latch both(2);
    std::atomic<int> runs = 0;
    const auto piece = [&](int i) {
      ++runs;
      if (i < 2) both.arrive_and_wait();  // one on each thread
      if (i < 2 && (std::this_thread::get_id() != caller) == by_helper) throw std::bad_alloc();
    };
    EXPECT_THROW(team.run(5, piece), std::bad_alloc);
    EXPECT_EQ(runs, 5);
  }
  std::atomic<int> runs = 0;
  team.run(7, [&](int) { ++runs; });
  EXPECT_EQ(runs, 7);
}

TEST(Team, ThreadsStartWithTheFirstUse) {
  const int before = test::count_threads();
  Team team(3);
  team.run(1, [](int) {});
  EXPECT_EQ(test::count_threads(), before);
  team.run(2, [](int) {});
  EXPECT_EQ(test::count_threads(), before + 2);
}

// Callers share the helpers; what a piece wrote is seen by its caller; a piece may run a loop of its own.
TEST(Team, ManyCallersAtOnce) {
  Team team(3);
  const int rounds = 200;
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total = 0;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int r = 0; r < rounds; ++r) {
        int sums[8] = {};
        team.run(8, [&](int i) {
          int inner[2] = {};
          team.run(2, [&](int j) { inner[j] = i + j; });
          sums[i] = inner[0] + inner[1];
        });
        for (int i = 0; i < 8; ++i) total += sums[i] - (2 * i + 1) + 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 8 * rounds);
}

}  // namespace tutti::team_test

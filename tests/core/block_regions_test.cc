#include "tutti/core/block_regions.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tutti::block_regions_test {

struct Block {
  unsigned char* at;
  std::size_t bytes;
  unsigned char mark;
};

bool is_intact(const Block& block) {
  for (std::size_t i = 0; i < block.bytes; i += 512) {
    if (block.at[i] != block.mark) return false;
  }
  return block.at[block.bytes - 1] == block.mark;
}

// Lends and takes back in an order drawn from `seed`; whoever else writes into a block is found.
void lend_at_random(BlockRegions& regions, std::uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Block> lent;
  for (int step = 0; step < steps; ++step) {
    if (lent.empty() || random() % 5 < 3) {
      const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? std::size_t{4} << 20 : std::size_t{200} << 10);
      auto* at = static_cast<unsigned char*>(regions.allocate(bytes));
      ASSERT_NE(at, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % BlockRegions::kAlignment, 0u);
      lent.push_back({at, bytes, static_cast<unsigned char>(random())});
      std::memset(at, lent.back().mark, bytes);
    } else {
      std::swap(lent[random() % lent.size()], lent.back());
      ASSERT_TRUE(is_intact(lent.back())) << "seed " << seed << ", step " << step;
      regions.free(lent.back().at, lent.back().bytes);
      lent.pop_back();
    }
  }
  for (const Block& block : lent) {
    EXPECT_TRUE(is_intact(block)) << "seed " << seed;
    regions.free(block.at, block.bytes);
  }
}

TEST(BlockRegions, BlocksDoNotOverlapAndOneEmptyRegionStays) {
  BlockRegions regions;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    lend_at_random(regions, seed, 300);
    EXPECT_EQ(regions.num_regions(), 1u);
  }
}

TEST(BlockRegions, ThreadsShareThem) {
  BlockRegions regions;
  std::vector<std::thread> threads;
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&regions, seed] { lend_at_random(regions, seed, 300); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(regions.num_regions(), 1u);
}

TEST(BlockRegions, WhatIsGivenBackIsLentAgain) {
  BlockRegions regions;
  constexpr std::size_t kQuarter = BlockRegions::kRegionBytes / 4;
  void* first = regions.allocate(kQuarter);
  void* second = regions.allocate(kQuarter);
  void* third = regions.allocate(kQuarter);
  regions.free(first, kQuarter);
  regions.free(third, kQuarter);
  regions.free(second, kQuarter);  // joins its neighbours
  void* whole = regions.allocate(BlockRegions::kRegionBytes);
  EXPECT_EQ(whole, first);
  EXPECT_EQ(regions.num_regions(), 1u);
  void* more = regions.allocate(1);
  EXPECT_EQ(regions.num_regions(), 2u);
  regions.free(whole, BlockRegions::kRegionBytes);
  regions.free(more, 1);
  EXPECT_EQ(regions.num_regions(), 1u);
}

TEST(BlockRegions, RefusesWhatNoRegionHolds) {
  BlockRegions regions;
  EXPECT_EQ(regions.allocate(0), nullptr);
  EXPECT_EQ(regions.allocate(BlockRegions::kRegionBytes + 1), nullptr);
  EXPECT_EQ(regions.num_regions(), 0u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more addresses than the limit leaves
TEST(BlockRegions, GivesNothingWhenMemoryIsExhausted) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{std::size_t{1} << 20, std::size_t{1} << 20};
    ::setrlimit(RLIMIT_AS, &none);
    BlockRegions regions;
    ::_exit(regions.allocate(100) == nullptr && regions.num_regions() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace tutti::block_regions_test

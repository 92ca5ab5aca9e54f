#include "tutti/core/memory_budget.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tutti/core/team.h"
#include "tutti/core/tensor.h"

namespace tutti::memory_budget_test {

// Far above what this process holds.
constexpr std::size_t kLimit = std::size_t{16} << 30;

TEST(MemoryBudget, AccountsShareOneLimit) {
  const auto budget = std::make_shared<MemoryBudget>(kLimit);
  MemoryAccount one(budget), two(budget);
  EXPECT_TRUE(one.take(kLimit / 2));
  EXPECT_TRUE(two.take(kLimit / 4));
  EXPECT_FALSE(two.take(kLimit / 2));
  EXPECT_EQ(two.held_bytes(), kLimit / 4) << "what was refused is not counted";
  EXPECT_EQ(budget->held_bytes(), kLimit / 4 * 3);
  const std::string text = two.shortage(kLimit / 2);
  EXPECT_TRUE(
      text.starts_with("8589934592 bytes asked for; of 17179869184 that the task may use (--memory-limit) "
                       "4294967296 are held by tensors of this session, 8589934592 by tensors of 1 others, "))
      << text;
  one.give_back(kLimit / 2);
  EXPECT_TRUE(two.take(kLimit / 2));
  EXPECT_FALSE(two.take(SIZE_MAX)) << "and nothing overflows";
}

// What counts is also what the process holds besides.
TEST(MemoryBudget, SeesWhatNobodyCounts) {
  if (!MemoryScope::kChecksNew) GTEST_SKIP() << "a sanitizer's allocator is in use";
  const auto budget = std::make_shared<MemoryBudget>(std::size_t{512} << 20);
  ASSERT_TRUE(budget->has_room(100 << 20)) << "this test has much memory";
  const std::vector<char> uncounted(std::size_t{450} << 20, 1);
  EXPECT_FALSE(budget->has_room(100 << 20)) << uncounted.size();
}

TEST(MemoryBudget, PoolsAreOnTheirAccount) {
  const auto budget = std::make_shared<MemoryBudget>(kLimit);
  const auto account = std::make_shared<MemoryAccount>(budget);
  BufferPtr kept;
  {
    const auto pool = make_pool_allocator(account);
    kept = pool->allocate(1 << 20);
    ASSERT_NE(kept, nullptr);
    EXPECT_GE(account->held_bytes(), std::size_t{1} << 20);
    EXPECT_EQ(pool->allocate(kLimit), nullptr);
  }
  EXPECT_GE(account->held_bytes(), std::size_t{1} << 20) << "the buffer lives on";
  kept.reset();
  EXPECT_EQ(account->held_bytes(), 0u);
}

TEST(MemoryBudget, WhatIsKeptForLaterIsGivenUpForOthers) {
  const auto budget = std::make_shared<MemoryBudget>(kLimit);
  const auto idle = std::make_shared<MemoryAccount>(budget), busy = std::make_shared<MemoryAccount>(budget);
  const auto idle_pool = make_pool_allocator(idle), busy_pool = make_pool_allocator(busy);
  // Not touched, so that the machine need not have it.
  ASSERT_NE(idle_pool->allocate(kLimit / 2), nullptr);
  EXPECT_GE(idle->held_bytes(), kLimit / 2) << "kept for reuse";
  EXPECT_NE(busy_pool->allocate(kLimit / 2), nullptr);
  EXPECT_EQ(idle->held_bytes(), 0u);
}

TEST(MemoryBudget, TheMachinesMemoryBoundsIt) {
  const auto machine =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
  EXPECT_LE(available_memory(), machine);
}

TEST(MemoryScope, VectorsAndStringsMustFit) {
  if (!MemoryScope::kChecksNew) GTEST_SKIP() << "a sanitizer's allocator is in use";
  const auto budget = std::make_shared<MemoryBudget>(std::size_t{1} << 30);
  MemoryAccount account(budget);
  {
    const MemoryScope scope(&account);
    EXPECT_THROW(std::vector<double>(std::size_t{1} << 30), OverBudget);
    EXPECT_THROW(std::string(std::size_t{2} << 30, 'x'), OverBudget);
    EXPECT_EQ(heap_allocator().allocate(std::size_t{2} << 30), nullptr);
    const Status tensor = Tensor::create(DType::kString, Shape{1 << 30}, heap_allocator()).status();
    EXPECT_EQ(tensor.code(), Code::kResourceExhausted);
    EXPECT_NE(tensor.message().find("--memory-limit"), std::string::npos) << tensor.to_string();
    const MemoryScope none(nullptr);
    EXPECT_NE(heap_allocator().allocate(std::size_t{2} << 30), nullptr);
  }
  EXPECT_NE(heap_allocator().allocate(std::size_t{2} << 30), nullptr);
}

// Each small, together too much.
TEST(MemoryScope, ManyStringsMustFit) {
  if (!MemoryScope::kChecksNew) GTEST_SKIP() << "a sanitizer's allocator is in use";
  constexpr std::size_t kSmall = 256 << 20;
  const auto budget = std::make_shared<MemoryBudget>(kSmall);
  MemoryAccount account(budget);
  std::vector<std::string> strings(1'000'000);
  const auto fill = [&] {
    const MemoryScope scope(&account);
    for (std::string& text : strings) text.assign(10'000, 'x');
  };
  EXPECT_THROW(fill(), OverBudget);
}

TEST(MemoryScope, HelpersWorkInTheirCallersScope) {
  if (!MemoryScope::kChecksNew) GTEST_SKIP() << "a sanitizer's allocator is in use";
  const auto budget = std::make_shared<MemoryBudget>(std::size_t{1} << 30);
  MemoryAccount account(budget);
  Team team(4);
  const MemoryScope scope(&account);
  EXPECT_THROW(team.run(16, [](int) { std::vector<char>(std::size_t{2} << 30); }), OverBudget);
}

}  // namespace tutti::memory_budget_test

#include "tutti/core/allocator.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tutti/core/mutex.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Debian's g++ comes without the header that has it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace tutti::allocator_test {

bool is_aligned(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data()) % kTensorAlignment == 0;
}

// Fills all of it, so that the address sanitizer sees a size that is wrong.
void fill(const BufferPtr& buffer, int value) { std::memset(buffer->data(), value, buffer->bytes()); }

bool holds(const BufferPtr& buffer, int value) {
  const auto* bytes = static_cast<const unsigned char*>(buffer->data());
  for (std::size_t i = 0; i < buffer->bytes(); ++i) {
    if (bytes[i] != static_cast<unsigned char>(value)) return false;
  }
  return true;
}

std::vector<std::size_t> interesting_sizes() {
  std::vector<std::size_t> sizes = {0, 1};
  for (std::size_t size = 64; size <= (1 << 20); size += size <= 1024 ? 64 : size / 16) {
    sizes.insert(sizes.end(), {size - 1, size, size + 1});
  }
  return sizes;
}

// Of the whole process.
std::int64_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  return static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
#endif
}

TEST(HeapAllocator, AlignedWritableMemoryOfEverySize) {
  for (const std::size_t size : interesting_sizes()) {
    const BufferPtr buffer = heap_allocator().allocate(size);
    ASSERT_NE(buffer, nullptr) << size;
    EXPECT_GE(buffer->bytes(), size);
    EXPECT_TRUE(is_aligned(*buffer));
    fill(buffer, 0xab);
  }
  EXPECT_EQ(heap_allocator().stats().allocations, 0);
}

TEST(HeapAllocator, NullForAbsurdSizes) {
  for (int shift = 50; shift < 64; ++shift) EXPECT_EQ(heap_allocator().allocate(std::size_t{1} << shift), nullptr);
  EXPECT_EQ(heap_allocator().allocate(SIZE_MAX), nullptr);
}

TEST(PoolAllocator, AlignedWritableMemoryOfEverySize) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  std::vector<BufferPtr> buffers;
  for (const std::size_t size : interesting_sizes()) {
    buffers.push_back(pool->allocate(size));
    ASSERT_NE(buffers.back(), nullptr) << size;
    EXPECT_GE(buffers.back()->bytes(), size);
    EXPECT_NE(buffers.back()->data(), nullptr);
    EXPECT_TRUE(is_aligned(*buffers.back()));
    fill(buffers.back(), static_cast<int>(buffers.size()));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(holds(buffers[i], static_cast<int>(i + 1)));
}

TEST(PoolAllocator, NullForAbsurdSizes) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  for (int shift = 50; shift < 64; ++shift) EXPECT_EQ(pool->allocate(std::size_t{1} << shift), nullptr);
  EXPECT_EQ(pool->allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(pool->stats().bytes_reserved, 0);
  EXPECT_NE(pool->allocate(64), nullptr);
}

TEST(PoolAllocator, ASecondRoundAsksTheSystemForNothing) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  const std::vector<std::size_t> sizes = interesting_sizes();
  const auto run_round = [&] {
    std::vector<BufferPtr> buffers;
    for (const std::size_t size : sizes) buffers.push_back(pool->allocate(size));
  };
  run_round();
  const AllocatorStats first = pool->stats();
  EXPECT_EQ(first.allocations, static_cast<std::int64_t>(sizes.size()));
  EXPECT_EQ(first.system_allocations, first.allocations);
  run_round();
  const AllocatorStats second = pool->stats();
  EXPECT_EQ(second.allocations, 2 * first.allocations);
  EXPECT_EQ(second.system_allocations, first.system_allocations);
  EXPECT_EQ(second.bytes_reserved, first.bytes_reserved);
}

TEST(PoolAllocator, KeepsAccount) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  BufferPtr small = pool->allocate(100);
  BufferPtr large = pool->allocate(100'000);
  const AllocatorStats both = pool->stats();
  EXPECT_GE(both.bytes_in_use, 100'100);
  EXPECT_LE(both.bytes_in_use, 115'000);  // rounding takes at most an eighth
  EXPECT_EQ(both.bytes_reserved, both.bytes_in_use);
  EXPECT_EQ(both.peak_bytes_in_use, both.bytes_in_use);
  large.reset();
  EXPECT_LT(pool->stats().bytes_in_use, 400);
  small.reset();
  const AllocatorStats none = pool->stats();
  EXPECT_EQ(none.bytes_in_use, 0);
  EXPECT_EQ(none.peak_bytes_in_use, both.peak_bytes_in_use);
  EXPECT_EQ(none.bytes_reserved, both.bytes_reserved);
}

TEST(PoolAllocator, SharedHoldersKeepTheMemory) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  BufferPtr first = pool->allocate(256);
  const BufferPtr second = first;
  std::weak_ptr<Buffer> watcher = first;
  fill(first, 7);
  first.reset();
  EXPECT_TRUE(holds(second, 7));
  EXPECT_NE(pool->allocate(256)->data(), second->data());
  EXPECT_FALSE(watcher.expired());
}

// A weak holder keeps the count alive, which lies in the block: it must not be lent again before.
TEST(PoolAllocator, WeakHoldersKeepTheBlock) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  BufferPtr buffer = pool->allocate(256);
  std::weak_ptr<Buffer> watcher = buffer;
  buffer.reset();
  EXPECT_TRUE(watcher.expired());
  buffer = pool->allocate(256);
  fill(buffer, 1);
  EXPECT_TRUE(watcher.expired());
  EXPECT_EQ(pool->stats().system_allocations, 2);
}

TEST(PoolAllocator, BuffersOutliveIt) {
  std::unique_ptr<Allocator> pool = make_pool_allocator();
  BufferPtr first = pool->allocate(1000);
  BufferPtr second = pool->allocate(5000);
  pool->allocate(300);  // lies in the cache when the allocator goes
  fill(first, 1);
  pool.reset();
  fill(second, 2);
  EXPECT_TRUE(holds(first, 1));
  first.reset();
  EXPECT_TRUE(holds(second, 2));
  second.reset();  // the leak checker sees whether the pool is gone now
}

TEST(PoolAllocator, OnlyWhatIsHeldOutlivesIt) {
  constexpr std::size_t kLarge = 64 << 20;
  std::unique_ptr<Allocator> pool = make_pool_allocator();
  BufferPtr small = pool->allocate(64);
  BufferPtr other = pool->allocate(kLarge);
  pool->allocate(kLarge);  // given back at once, and kept by the pool
  const std::int64_t before = heap_bytes();
  pool.reset();
  EXPECT_LT(heap_bytes(), before - static_cast<std::int64_t>(kLarge) / 2);
  other.reset();
  EXPECT_LT(heap_bytes(), before - static_cast<std::int64_t>(kLarge) * 3 / 2);
}

TEST(PoolAllocator, StaysUnderItsLimit) {
  constexpr std::size_t kLimit = 1 << 20;
  const std::unique_ptr<Allocator> pool = make_pool_allocator(kLimit);
  EXPECT_EQ(pool->allocate(2 * kLimit), nullptr);
  std::vector<BufferPtr> buffers;
  while (BufferPtr buffer = pool->allocate(10'000)) buffers.push_back(std::move(buffer));
  EXPECT_GE(buffers.size(), 90u);
  EXPECT_LE(pool->stats().bytes_reserved, static_cast<std::int64_t>(kLimit));
  buffers.pop_back();
  EXPECT_NE(pool->allocate(10'000), nullptr);  // what came back is there again
}

TEST(PoolAllocator, DropsUnusedBlocksToStayUnderItsLimit) {
  constexpr std::size_t kLimit = 1 << 20;
  const std::unique_ptr<Allocator> pool = make_pool_allocator(kLimit);
  {
    std::vector<BufferPtr> buffers;
    while (BufferPtr buffer = pool->allocate(10'000)) buffers.push_back(std::move(buffer));
  }
  EXPECT_GT(pool->stats().bytes_reserved, static_cast<std::int64_t>(kLimit * 8 / 10));
  const BufferPtr large = pool->allocate(kLimit / 2);  // of a class that was never used
  ASSERT_NE(large, nullptr);
  fill(large, 3);
  EXPECT_LE(pool->stats().bytes_reserved, static_cast<std::int64_t>(kLimit));
  EXPECT_EQ(pool->allocate(kLimit / 2), nullptr);
  EXPECT_NE(pool->allocate(kLimit / 4), nullptr);
}

TEST(PoolAllocator, AHugeLimitIsNone) {
  const std::unique_ptr<Allocator> pool = make_pool_allocator(SIZE_MAX);
  EXPECT_NE(pool->allocate(1 << 20), nullptr);
}

TEST(PoolAllocator, ManyThreadsAllocateAndGiveBackEachOthersBuffers) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  const std::unique_ptr<Allocator> pool = make_pool_allocator();
  Mutex mu;
  std::vector<std::pair<BufferPtr, int>> shelf;  // what one thread leaves, another takes and drops
  std::atomic<int> broken = 0;
  const auto work = [&](int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      BufferPtr buffer = pool->allocate(random() % 3000);
      const int mark = static_cast<int>(random() % 256);
      fill(buffer, mark);
      std::pair<BufferPtr, int> taken;
      {
        MutexLock lock(mu);
        shelf.emplace_back(std::move(buffer), mark);
        if (shelf.size() > 32) {
          std::swap(shelf[random() % shelf.size()], shelf.back());
          taken = std::move(shelf.back());
          shelf.pop_back();
        }
      }
      if (taken.first && !holds(taken.first, taken.second)) ++broken;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(pool->stats().allocations, kThreads * kRounds);
  EXPECT_LT(pool->stats().system_allocations, 2000);
  shelf.clear();
  EXPECT_EQ(pool->stats().bytes_in_use, 0);
}

TEST(PoolAllocator, TheLastBufferMayGoOnAnotherThread) {
  for (int i = 0; i < 200; ++i) {
    std::unique_ptr<Allocator> pool = make_pool_allocator();
    BufferPtr first = pool->allocate(64);
    BufferPtr second = pool->allocate(4096);
    std::thread other([buffer = std::move(first)]() mutable { buffer.reset(); });
    pool.reset();
    second.reset();
    other.join();
  }
}

}  // namespace tutti::allocator_test

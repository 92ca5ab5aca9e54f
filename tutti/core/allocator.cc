#include "tutti/core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "tutti/core/block_regions.h"
#include "tutti/core/memory_budget.h"
#include "tutti/core/mutex.h"
#include "tutti/core/size_classes.h"

#if defined(__SANITIZE_ADDRESS__)
#define TUTTI_ASAN_ 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TUTTI_ASAN_ 1
#endif
#endif
#if defined(TUTTI_ASAN_)
#include <sanitizer/asan_interface.h>
#endif

namespace tutti {

namespace {

// A block is a header and the data behind it. While lent, the header holds the Buffer and the count of
// its shared_ptr; while free, the link to the next free block. So a tensor costs one block and no malloc.
constexpr std::size_t kHeaderBytes = 128;
static_assert(kHeaderBytes % kTensorAlignment == 0);

// Under the address sanitizer a read or write past the bytes asked for, or of a block given back, is
// an error, as it would be with memory from malloc.
void fence_data([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes,
                [[maybe_unused]] std::size_t capacity) {
#if defined(TUTTI_ASAN_)
  char* data = static_cast<char*>(block) + kHeaderBytes;
  ASAN_POISON_MEMORY_REGION(data, capacity);
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

// Large blocks lie on huge pages where the system lends them: a gather of rows from a table of 50 MB, which misses the
// TLB with nearly every row, is then a fifth faster. From kHugeBlockBytes on what the last page wastes does not matter;
// medium ones share pages. Under the address sanitizer they come from malloc, whose blocks it watches.
constexpr std::size_t kHugeBlockBytes = 2 * BlockRegions::kHugePageBytes;
#if defined(TUTTI_ASAN_)
constexpr std::size_t kMediumBlockBytes = kHugeBlockBytes;
#else
constexpr std::size_t kMediumBlockBytes = 64 << 10;
#endif
static_assert(kHugeBlockBytes <= BlockRegions::kRegionBytes && kTensorAlignment <= BlockRegions::kAlignment);

bool is_medium(std::size_t bytes) { return bytes >= kMediumBlockBytes && bytes < kHugeBlockBytes; }

// Never destroyed: buffers may be given back by whatever is destroyed last.
BlockRegions& regions() {
  static BlockRegions* const all = new BlockRegions;
  return *all;
}

// Null when there is none.
void* system_allocate(std::size_t data_bytes) {
  const std::size_t bytes = kHeaderBytes + data_bytes;
  if (is_medium(bytes)) return regions().allocate(bytes);
  const bool huge = bytes >= kHugeBlockBytes;
  void* block = nullptr;
  if (posix_memalign(&block, huge ? BlockRegions::kHugePageBytes : kTensorAlignment, bytes) != 0) return nullptr;
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);  // refused: ordinary pages
  return block;
}

// `block` came from system_allocate(`data_bytes`).
void system_free(void* block, std::size_t data_bytes) {
  const std::size_t bytes = kHeaderBytes + data_bytes;
  if (is_medium(bytes)) return regions().free(block, bytes);
  std::free(block);
}

// Places the Buffer and its count in a block that is there already. `Home` takes the block back.
template <typename T, typename Home>
class BlockAllocator {
 public:
  using value_type = T;

  BlockAllocator(Home home, void* block) : home_(home), block_(block) {}
  template <typename U>
  BlockAllocator(const BlockAllocator<U, Home>& other) : home_(other.home_), block_(other.block_) {}  // NOLINT

  T* allocate(std::size_t) {
    static_assert(sizeof(T) <= kHeaderBytes && alignof(T) <= kTensorAlignment);
    return static_cast<T*>(block_);
  }
  void deallocate(T* header, std::size_t) { home_.give_back(header); }

  template <typename U>
  bool operator==(const BlockAllocator<U, Home>& other) const {
    return block_ == other.block_;
  }

 private:
  template <typename U, typename H>
  friend class BlockAllocator;

  Home home_;
  void* block_;
};

template <typename Home>
BufferPtr make_buffer(void* block, std::size_t bytes, Home home) {
  return std::allocate_shared<Buffer>(BlockAllocator<Buffer, Home>(home, block),
                                      static_cast<char*>(block) + kHeaderBytes, bytes);
}

struct HeapHome {
  std::size_t bytes;
  void give_back(void* block) const { system_free(block, bytes); }
};

class HeapAllocator : public Allocator {
 public:
  BufferPtr allocate(std::size_t bytes) override {
    if (bytes > size_classes::kMaxBytes || !MemoryScope::allows(bytes)) return nullptr;
    void* block = system_allocate(bytes);
    if (!block) return nullptr;
    return make_buffer(block, bytes, HeapHome{bytes});
  }
  AllocatorStats stats() const override { return {}; }
};

// The free lists and the account. Lives until the allocator is gone and every block is back.
class PoolCore {
 public:
  // `account` may be null.
  PoolCore(std::size_t limit_bytes, std::shared_ptr<MemoryAccount> account)
      : limit_bytes_(limit_bytes), account_(std::move(account)) {}
  ~PoolCore() {
    MutexLock lock(mu_);
    trim_to(0);
  }
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // Null when memory is exhausted.
  void* take(int size_class) TUTTI_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      ++stats_.allocations;
      if (FreeBlock* block = free_[size_class]) {
        free_[size_class] = block->next;
        lend(block_bytes(size_class));
        return block;
      }
    }
    return take_new(size_class);
  }

  void give_back(void* block, int size_class) TUTTI_EXCLUDES(mu_) {
    fence_data(block, 0, size_classes::bytes_of(size_class));
    std::shared_ptr<PoolCore> last_owner;  // dropped after the lock: it may delete this
    MutexLock lock(mu_);
    free_[size_class] = new (block) FreeBlock{free_[size_class]};
    stats_.bytes_in_use -= block_bytes(size_class);
    if (self_) trim_to(0);  // nobody will ask for it again
    if (stats_.bytes_in_use == 0) last_owner.swap(self_);
  }

  // Called by the allocator when it goes: `self` (this) then stays until the last block is back.
  void keep_until_returned(std::shared_ptr<PoolCore> self) TUTTI_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (stats_.bytes_in_use == 0) return;
    trim_to(0);
    self_.swap(self);
  }

  AllocatorStats stats() const TUTTI_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return stats_;
  }

  // Frees what is not lent whenever the budget is short. REQUIRES: `self` is this.
  void trim_when_short(const std::shared_ptr<PoolCore>& self) {
    if (account_ == nullptr) return;
    reclaim_ = account_->budget().add_reclaim([weak = std::weak_ptr(self)] {
      if (const auto core = weak.lock()) core->trim();
    });
  }

 private:
  void trim() TUTTI_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    trim_to(0);
  }

  struct FreeBlock {
    FreeBlock* next;
  };

  static std::int64_t block_bytes(int size_class) {
    return static_cast<std::int64_t>(kHeaderBytes + size_classes::bytes_of(size_class));
  }

  void lend(std::int64_t bytes) TUTTI_REQUIRES(mu_) {
    stats_.bytes_in_use += bytes;
    if (stats_.bytes_in_use > stats_.peak_bytes_in_use) stats_.peak_bytes_in_use = stats_.bytes_in_use;
  }

  void* take_new(int size_class) TUTTI_EXCLUDES(mu_) {
    const std::int64_t bytes = block_bytes(size_class);
    if (account_ != nullptr && !account_->take(static_cast<std::size_t>(bytes))) return nullptr;
    void* block = reserve_new(size_class, bytes);
    if (block == nullptr && account_ != nullptr) account_->give_back(static_cast<std::size_t>(bytes));
    return block;
  }

  // The system is asked with the lock free, since it may take long; the block is in the statistics before.
  void* reserve_new(int size_class, std::int64_t bytes) TUTTI_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      ++stats_.system_allocations;
      if (limit_bytes_ != 0) {
        const std::int64_t room =
            static_cast<std::int64_t>(std::min(limit_bytes_, 2 * size_classes::kMaxBytes)) - bytes;
        if (stats_.bytes_in_use > room) return nullptr;  // trimming would not help
        if (stats_.bytes_reserved > room) trim_to(room);
        if (stats_.bytes_reserved > room) return nullptr;
      }
      stats_.bytes_reserved += bytes;
      lend(bytes);
    }
    void* block = system_allocate(size_classes::bytes_of(size_class));
    if (block) return block;

    {
      MutexLock lock(mu_);
      trim_to(0);
    }
    block = system_allocate(size_classes::bytes_of(size_class));
    if (block) return block;

    MutexLock lock(mu_);
    stats_.bytes_reserved -= bytes;
    stats_.bytes_in_use -= bytes;
    return nullptr;
  }

  // Frees unused blocks, the largest first, until no more than `bytes` are reserved or none is left.
  void trim_to(std::int64_t bytes) TUTTI_REQUIRES(mu_) {
    for (int size_class = size_classes::kCount - 1; size_class >= 0; --size_class) {
      while (free_[size_class]) {
        if (stats_.bytes_reserved <= bytes) return;
        FreeBlock* block = free_[size_class];
        free_[size_class] = block->next;
        stats_.bytes_reserved -= block_bytes(size_class);
        if (account_ != nullptr) account_->give_back(static_cast<std::size_t>(block_bytes(size_class)));
        system_free(block, size_classes::bytes_of(size_class));
      }
    }
  }

  const std::size_t limit_bytes_;
  const std::shared_ptr<MemoryAccount> account_;  // what is reserved is on it; null: none
  MemoryBudget::Registration reclaim_;            // constant once the allocator is made
  mutable Mutex mu_;
  std::array<FreeBlock*, size_classes::kCount> free_ TUTTI_GUARDED_BY(mu_) = {};
  AllocatorStats stats_ TUTTI_GUARDED_BY(mu_);
  // Set while blocks are out and the allocator is gone.
  std::shared_ptr<PoolCore> self_ TUTTI_GUARDED_BY(mu_);
};

struct PoolHome {
  PoolCore* core;  // outlives its blocks
  int size_class;
  void give_back(void* block) const { core->give_back(block, size_class); }
};

class PoolAllocator : public Allocator {
 public:
  explicit PoolAllocator(std::size_t limit_bytes, std::shared_ptr<MemoryAccount> account = nullptr)
      : core_(std::make_shared<PoolCore>(limit_bytes, std::move(account))) {
    core_->trim_when_short(core_);
  }
  ~PoolAllocator() override { core_->keep_until_returned(core_); }

  BufferPtr allocate(std::size_t bytes) override {
    if (bytes > size_classes::kMaxBytes) return nullptr;
    const int size_class = size_classes::class_of(bytes);
    void* block = core_->take(size_class);
    if (!block) return nullptr;
    fence_data(block, bytes, size_classes::bytes_of(size_class));
    return make_buffer(block, bytes, PoolHome{core_.get(), size_class});
  }
  AllocatorStats stats() const override { return core_->stats(); }

 private:
  const std::shared_ptr<PoolCore> core_;
};

class MessageAllocator : public Allocator {
 public:
  BufferPtr allocate(std::size_t bytes) override {
    BufferPtr kept = pool_.allocate(bytes);
    return kept ? kept : heap_allocator().allocate(bytes);
  }
  AllocatorStats stats() const override { return pool_.stats(); }

 private:
  PoolAllocator pool_{std::size_t{2} << 30};
};

}  // namespace

Allocator& heap_allocator() {
  static HeapAllocator allocator;
  return allocator;
}

// Never destroyed: buffers may be given back by whatever is destroyed last.
Allocator& message_allocator() {
  static MessageAllocator* const allocator = new MessageAllocator;
  return *allocator;
}

std::unique_ptr<Allocator> make_pool_allocator(std::size_t limit_bytes) {
  return std::make_unique<PoolAllocator>(limit_bytes);
}

std::unique_ptr<Allocator> make_pool_allocator(std::shared_ptr<MemoryAccount> account) {
  return std::make_unique<PoolAllocator>(0, std::move(account));
}

}  // namespace tutti

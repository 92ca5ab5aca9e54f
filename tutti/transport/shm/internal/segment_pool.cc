#include "tutti/transport/shm/internal/segment_pool.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tutti/core/size_classes.h"

namespace tutti::shm {
namespace {

// Untouched pages cost nothing, but every segment costs two descriptors and, at each peer, a mapping.
constexpr std::size_t kSegmentBytes = std::size_t{64} << 20;
// Through the ring it would take a second, for which the peer hears nothing else of us. One at a time gets a segment
// whatever the limit says.
constexpr std::size_t kHugeBytes = std::size_t{1} << 30;
constexpr std::size_t kPageBytes = 4096;
// Each is a descriptor, of which a process may have a thousand.
constexpr int kMaxSegmentsForOne = 64;

constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

class SegmentPool::Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(std::size_t limit_bytes) : limit_bytes_(std::min(limit_bytes, size_classes::kMaxBytes)) {}

  BufferPtr allocate(std::size_t bytes);
  BufferPtr allocate_once(std::size_t bytes);
  AllocatorStats stats() const {
    MutexLock lock(mu_);
    return stats_;
  }
  std::optional<Place> find(const std::byte* data, std::size_t bytes) const;
  void set_dropped(Dropped dropped) {
    MutexLock lock(mu_);
    dropped_.swap(dropped);
  }

 private:
  struct Space {
    std::shared_ptr<Segment> segment;
    std::size_t used = 0;  // blocks begin below
    int lent = 0;          // blocks
  };
  struct Block {
    Space* space = nullptr;
    std::byte* data = nullptr;
  };
  class SharedBuffer;
  class OnceBuffer;

  std::optional<Block> take(int size_class, std::vector<std::uint64_t>& dropped) TUTTI_REQUIRES(mu_);
  std::optional<Block> cut(std::size_t bytes) TUTTI_REQUIRES(mu_);
  bool add_space(std::size_t bytes, std::vector<std::uint64_t>& dropped) TUTTI_REQUIRES(mu_);
  bool forget_free_blocks_of_unused_spaces() TUTTI_REQUIRES(mu_);
  void drop_unused(std::size_t wanted, std::vector<std::uint64_t>& dropped) TUTTI_REQUIRES(mu_);
  Space* make_space(std::size_t bytes) TUTTI_REQUIRES(mu_);
  void give_back(Block block, int size_class);
  void drop_once(Block block);

  const std::size_t limit_bytes_;
  mutable Mutex mu_;
  Dropped dropped_ TUTTI_GUARDED_BY(mu_);
  std::map<const std::byte*, Space> spaces_ TUTTI_GUARDED_BY(mu_);  // by where they begin
  std::array<std::vector<Block>, size_classes::kCount> free_ TUTTI_GUARDED_BY(mu_);
  std::uint64_t next_id_ TUTTI_GUARDED_BY(mu_) = 1;
  // Segments for one block.
  int once_count_ TUTTI_GUARDED_BY(mu_) = 0;
  std::size_t once_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  AllocatorStats stats_ TUTTI_GUARDED_BY(mu_);  // bytes_reserved: without those
};

class SegmentPool::Core::SharedBuffer : public Buffer {
 public:
  SharedBuffer(std::shared_ptr<Core> core, Block block, std::size_t bytes, int size_class)
      : Buffer(block.data, bytes), core_(std::move(core)), block_(block), size_class_(size_class) {}
  ~SharedBuffer() override { core_->give_back(block_, size_class_); }

 private:
  const std::shared_ptr<Core> core_;
  const Block block_;
  const int size_class_;
};

class SegmentPool::Core::OnceBuffer : public Buffer {
 public:
  OnceBuffer(std::shared_ptr<Core> core, Block block, std::size_t bytes)
      : Buffer(block.data, bytes), core_(std::move(core)), block_(block) {}
  ~OnceBuffer() override { core_->drop_once(block_); }

 private:
  const std::shared_ptr<Core> core_;
  const Block block_;
};

BufferPtr SegmentPool::Core::allocate_once(std::size_t bytes) {
  const std::size_t pages = whole_pages(bytes);
  Block block;
  {
    MutexLock lock(mu_);
    const bool room = once_count_ < kMaxSegmentsForOne && once_bytes_ + pages <= limit_bytes_;
    const bool huge = pages >= kHugeBytes && once_count_ == 0 && limit_bytes_ > 0;
    if (!room && !huge) return nullptr;
    block.space = make_space(pages);
    if (block.space == nullptr) return nullptr;
    block.data = block.space->segment->mapping->data();
    block.space->used = pages;
    block.space->lent = 1;
    ++once_count_;
    once_bytes_ += pages;
    ++stats_.allocations;
    stats_.bytes_in_use += static_cast<std::int64_t>(pages);
    stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  }
  return std::make_shared<OnceBuffer>(shared_from_this(), block, bytes);
}

void SegmentPool::Core::drop_once(Block block) {
  std::shared_ptr<Segment> segment;  // unmapped without the lock
  Dropped tell;
  {
    MutexLock lock(mu_);
    segment = std::move(block.space->segment);
    spaces_.erase(segment->mapping->data());
    --once_count_;
    once_bytes_ -= segment->mapping->bytes();
    stats_.bytes_in_use -= static_cast<std::int64_t>(segment->mapping->bytes());
    tell = dropped_;
  }
  if (tell) tell({segment->id});
}

BufferPtr SegmentPool::Core::allocate(std::size_t bytes) {
  if (bytes > limit_bytes_) return nullptr;
  const int size_class = size_classes::class_of(bytes);
  std::optional<Block> block;
  std::vector<std::uint64_t> dropped;
  Dropped tell;
  {
    MutexLock lock(mu_);
    ++stats_.allocations;
    block = take(size_class, dropped);
    if (block) {
      ++block->space->lent;
      stats_.bytes_in_use += static_cast<std::int64_t>(size_classes::bytes_of(size_class));
      stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
    }
    if (!dropped.empty()) tell = dropped_;
  }
  if (tell) tell(dropped);
  if (!block) return nullptr;
  return std::make_shared<SharedBuffer>(shared_from_this(), *block, bytes, size_class);
}

std::optional<SegmentPool::Core::Block> SegmentPool::Core::take(int size_class, std::vector<std::uint64_t>& dropped) {
  if (std::vector<Block>& free = free_[size_class]; !free.empty()) {
    const Block block = free.back();
    free.pop_back();
    return block;
  }
  const std::size_t bytes = size_classes::bytes_of(size_class);
  if (const auto block = cut(bytes)) return block;
  // Blocks of other classes may have left whole segments unused.
  if (forget_free_blocks_of_unused_spaces()) {
    if (const auto block = cut(bytes)) return block;
  }
  if (!add_space(bytes, dropped)) return std::nullopt;
  return cut(bytes);
}

std::optional<SegmentPool::Core::Block> SegmentPool::Core::cut(std::size_t bytes) {
  for (auto& [begin, space] : spaces_) {
    // Small blocks in one that was made for a large one would keep it from being used for such again.
    if (space.segment->mapping->bytes() > kSegmentBytes && bytes <= kSegmentBytes / 2) continue;
    if (space.segment->mapping->bytes() - space.used < bytes) continue;
    const Block block{&space, space.segment->mapping->data() + space.used};
    space.used += bytes;
    return block;
  }
  return std::nullopt;
}

// False: there were none.
bool SegmentPool::Core::forget_free_blocks_of_unused_spaces() {
  const auto unused = [](const auto& entry) { return entry.second.lent == 0 && entry.second.used > 0; };
  if (std::none_of(spaces_.begin(), spaces_.end(), unused)) return false;
  for (std::vector<Block>& free : free_) {
    std::erase_if(free, [](const Block& block) { return block.space->lent == 0; });
  }
  for (auto& [begin, space] : spaces_) {
    if (space.lent == 0) space.used = 0;
  }
  return true;
}

bool SegmentPool::Core::add_space(std::size_t bytes, std::vector<std::uint64_t>& dropped) {
  std::size_t wanted = std::max(whole_pages(bytes), std::min(kSegmentBytes, limit_bytes_));
  if (static_cast<std::size_t>(stats_.bytes_reserved) + wanted > limit_bytes_) drop_unused(wanted, dropped);
  if (static_cast<std::size_t>(stats_.bytes_reserved) + wanted > limit_bytes_) wanted = whole_pages(bytes);
  if (static_cast<std::size_t>(stats_.bytes_reserved) + wanted > limit_bytes_) return false;
  if (make_space(wanted) == nullptr) return false;
  stats_.bytes_reserved += static_cast<std::int64_t>(wanted);
  return true;
}

// Null: the system has no more.
SegmentPool::Core::Space* SegmentPool::Core::make_space(std::size_t bytes) {
  ++stats_.system_allocations;
  auto fd = make_memory_file("tutti-segment", bytes);
  if (!fd.ok()) return nullptr;
  auto mapping = Mapping::map(fd->get(), bytes, Mapping::Access::kReadWrite);
  if (!mapping.ok()) return nullptr;
  seal_against_writers(fd->get());
  auto segment = std::make_shared<Segment>();
  segment->id = next_id_++;
  segment->fd = *std::move(fd);
  segment->mapping = *std::move(mapping);
  const std::byte* begin = segment->mapping->data();
  return &spaces_.emplace(begin, Space{.segment = std::move(segment)}).first->second;
}

// REQUIRES: forget_free_blocks_of_unused_spaces() has been called since the last change.
void SegmentPool::Core::drop_unused(std::size_t wanted, std::vector<std::uint64_t>& dropped) {
  for (auto it = spaces_.begin(); it != spaces_.end();) {
    if (static_cast<std::size_t>(stats_.bytes_reserved) + wanted <= limit_bytes_) return;
    if (it->second.lent != 0) {
      ++it;
      continue;
    }
    stats_.bytes_reserved -= static_cast<std::int64_t>(it->second.segment->mapping->bytes());
    dropped.push_back(it->second.segment->id);
    it = spaces_.erase(it);
  }
}

void SegmentPool::Core::give_back(Block block, int size_class) {
  MutexLock lock(mu_);
  --block.space->lent;
  stats_.bytes_in_use -= static_cast<std::int64_t>(size_classes::bytes_of(size_class));
  free_[size_class].push_back(block);
}

std::optional<SegmentPool::Place> SegmentPool::Core::find(const std::byte* data, std::size_t bytes) const {
  MutexLock lock(mu_);
  auto next = spaces_.upper_bound(data);
  if (next == spaces_.begin()) return std::nullopt;
  const Space& space = std::prev(next)->second;
  const auto offset = static_cast<std::size_t>(data - space.segment->mapping->data());
  const std::size_t size = space.segment->mapping->bytes();
  if (offset > size || bytes > size - offset) return std::nullopt;
  return Place{.segment = space.segment, .offset = offset};
}

SegmentPool::SegmentPool(std::size_t limit_bytes)
    : small_(make_pool_allocator()), core_(std::make_shared<Core>(limit_bytes)) {}

SegmentPool::~SegmentPool() { set_dropped(nullptr); }

BufferPtr SegmentPool::allocate(std::size_t bytes) {
  if (bytes < kMinSharedBytes) return small_->allocate(bytes);
  BufferPtr shared = core_->allocate(bytes);
  return shared ? shared : heap_allocator().allocate(bytes);
}

BufferPtr SegmentPool::allocate_shared(std::size_t bytes) { return core_->allocate(bytes); }

BufferPtr SegmentPool::allocate_once(std::size_t bytes) { return core_->allocate_once(bytes); }

AllocatorStats SegmentPool::stats() const { return core_->stats(); }

std::optional<SegmentPool::Place> SegmentPool::find(const std::byte* data, std::size_t bytes) const {
  return core_->find(data, bytes);
}

void SegmentPool::keep(std::shared_ptr<const void> owner) {
  MutexLock lock(kept_mu_);
  kept_.push_back(std::move(owner));
}

void SegmentPool::set_dropped(Dropped dropped) { core_->set_dropped(std::move(dropped)); }

}  // namespace tutti::shm

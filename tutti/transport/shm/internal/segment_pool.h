// The memory that this process shares: buffers in memory files that peers map read-only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tutti/core/allocator.h"
#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/files.h"

namespace tutti::shm {

// One memory file of ours. Its number is never used again.
struct Segment {
  std::uint64_t id = 0;
  UniqueFd fd;
  std::shared_ptr<Mapping> mapping;
};

// Blocks by size class, in segments of 64 MB (larger blocks have one of their own), kept for reuse. Nothing but values
// lies in the segments: the lists are in private memory. Segments have `limit_bytes` together; to stay below, those
// that are wholly unused are given up. Buffers may outlive the pool. Thread-safe.
class SegmentPool : public Allocator {
 public:
  using Dropped = std::function<void(const std::vector<std::uint64_t>& segment_ids)>;

  explicit SegmentPool(std::size_t limit_bytes);
  ~SegmentPool() override;

  // From a segment; small ones, and when the segments are full, from private memory.
  BufferPtr allocate(std::size_t bytes) override;
  // From a segment; null when they are full.
  BufferPtr allocate_shared(std::size_t bytes);
  // From a segment of its own that goes with it; null when those have `limit_bytes` together (but one of 1 GiB or more
  // may lie there alone), or are too many.
  BufferPtr allocate_once(std::size_t bytes);
  AllocatorStats stats() const override;

  struct Place {
    std::shared_ptr<const Segment> segment;
    std::size_t offset = 0;
  };
  // Where these bytes lie, if wholly in one of our segments.
  std::optional<Place> find(const std::byte* data, std::size_t bytes) const;

  // Drops it when the pool goes: until then its memory is not used for anything else.
  void keep(std::shared_ptr<const void> owner);

  // Told, with no lock held, which segments were given up. Null: nobody is told any more.
  void set_dropped(Dropped dropped);

 private:
  class Core;
  const std::unique_ptr<Allocator> small_;  // what is too small to be worth a reference
  const std::shared_ptr<Core> core_;        // shared with the buffers
  Mutex kept_mu_;
  std::vector<std::shared_ptr<const void>> kept_ TUTTI_GUARDED_BY(kept_mu_);
};

// What is smaller is copied into messages rather than referred to.
inline constexpr std::size_t kMinSharedBytes = 4096;

}  // namespace tutti::shm

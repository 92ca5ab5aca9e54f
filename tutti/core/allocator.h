// Where tensor memory comes from. See docs/design/0003-tensor-buffers.md for who may hold what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti {

inline constexpr std::size_t kTensorAlignment = 64;

// Memory of one tensor, or of several that share it as slices. Held by shared_ptr: the last holder,
// on whichever thread, gives it back to where it came from.
class Buffer {
 public:
  Buffer(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 protected:
  void* data_;
  std::size_t bytes_;
};

using BufferPtr = std::shared_ptr<Buffer>;

struct AllocatorStats {
  std::int64_t bytes_in_use = 0;        // lent out now, rounding and headers included
  std::int64_t peak_bytes_in_use = 0;   // the most ever lent out at once
  std::int64_t bytes_reserved = 0;      // lent out or kept for reuse
  std::int64_t allocations = 0;         // calls so far
  std::int64_t system_allocations = 0;  // of those, calls that had to ask the system
};

// Gives out buffers. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes, kTensorAlignment-aligned, contents undefined. Null when memory is exhausted.
  virtual BufferPtr allocate(std::size_t bytes) = 0;
  virtual AllocatorStats stats() const = 0;
};

// Asks the system each time and keeps no account. For tensors made outside a step.
Allocator& heap_allocator();

// Keeps what is given back in lists by size class and lends it again, so that a warm user maps no
// new memory. Buffers may outlive the allocator. `limit_bytes` caps bytes_reserved (0 = no limit): what
// lies unused is freed to stay under it, and when that is not enough, allocate() returns null.
std::unique_ptr<Allocator> make_pool_allocator(std::size_t limit_bytes = 0);

// For large values that come from other processes, step after step: memory that the system had to map for each would
// cost more than the copy. A pool of 2 GB, lent and kept together; beyond, as heap_allocator.
Allocator& message_allocator();

}  // namespace tutti

// Blocks of medium size that lie together on huge pages.
//
// What a training step reads from end to end (weights, their slots, gradients) is mostly of a few hundred kilobytes to
// a few megabytes: too small for huge pages of its own, but together far more than the TLB covers with ordinary ones.
// An MLP step of 10 MB is 4 % faster this way, a wide-and-deep one 17 %.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "tutti/core/mutex.h"

namespace tutti {

// Cuts blocks out of regions of kRegionBytes, one call at a time: a search through the gaps. What is given back stays
// with the process until nothing of its region is lent; the last such region stays, too. Thread-safe.
class BlockRegions {
 public:
  static constexpr std::size_t kHugePageBytes = 2 << 20;
  static constexpr std::size_t kRegionBytes = 16 * kHugePageBytes;
  static constexpr std::size_t kAlignment = 64;

  BlockRegions() = default;
  ~BlockRegions();  // every block is back
  BlockRegions(const BlockRegions&) = delete;
  BlockRegions& operator=(const BlockRegions&) = delete;

  // At most kRegionBytes, kAlignment-aligned, contents undefined. Null when memory is exhausted.
  void* allocate(std::size_t bytes) TUTTI_EXCLUDES(mu_);
  // `block` came from allocate(`bytes`).
  void free(void* block, std::size_t bytes) TUTTI_EXCLUDES(mu_);

  std::size_t num_regions() const TUTTI_EXCLUDES(mu_);

 private:
  using Address = std::uintptr_t;
  using Gaps = std::map<Address, std::size_t>;  // where nothing is lent, and how much; no two touch

  static void move_gap(Gaps& gaps, Gaps::iterator gap, Address begin, std::size_t size);
  void drop_if_spare(std::map<Address, Gaps>::iterator region) TUTTI_REQUIRES(mu_);

  mutable Mutex mu_;
  std::map<Address, Gaps> regions_ TUTTI_GUARDED_BY(mu_);  // by where they begin
};

}  // namespace tutti

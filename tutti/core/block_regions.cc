#include "tutti/core/block_regions.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace tutti {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A region on huge pages, where the system lends them. Null when there is none.
void* map_region() {
  constexpr std::size_t kSlack = BlockRegions::kHugePageBytes;
  void* mapped =
      ::mmap(nullptr, BlockRegions::kRegionBytes + kSlack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const std::size_t skipped =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kSlack) - reinterpret_cast<std::uintptr_t>(begin);
  if (skipped > 0) ::munmap(begin, skipped);
  char* const region = begin + skipped;
  if (skipped < kSlack) ::munmap(region + BlockRegions::kRegionBytes, kSlack - skipped);
  ::madvise(region, BlockRegions::kRegionBytes, MADV_HUGEPAGE);  // refused: ordinary pages
  return region;
}

}  // namespace

BlockRegions::~BlockRegions() {
  for (const auto& [region, gaps] : regions_) ::munmap(reinterpret_cast<void*>(region), kRegionBytes);
}

void* BlockRegions::allocate(std::size_t bytes) {
  const std::size_t taken = round_up(bytes, kAlignment);
  if (taken == 0 || taken > kRegionBytes) return nullptr;
  MutexLock lock(mu_);
  // The first gap that is large enough: what is lent stays together, and the last regions become empty.
  for (auto& [region, gaps] : regions_) {
    const auto gap = std::find_if(gaps.begin(), gaps.end(), [taken](const auto& one) { return one.second >= taken; });
    if (gap == gaps.end()) continue;
    const Address begin = gap->first;
    if (gap->second == taken) {
      gaps.erase(gap);
    } else {
      move_gap(gaps, gap, begin + taken, gap->second - taken);
    }
    return reinterpret_cast<void*>(begin);
  }
  void* const mapped = map_region();
  if (mapped == nullptr) return nullptr;
  const auto begin = reinterpret_cast<Address>(mapped);
  try {
    Gaps gaps;
    if (taken < kRegionBytes) gaps.emplace(begin + taken, kRegionBytes - taken);
    regions_.emplace(begin, std::move(gaps));
  } catch (const std::bad_alloc&) {
    ::munmap(mapped, kRegionBytes);
    return nullptr;
  }
  return mapped;
}

// Without memory of its own, which may be what there is none of.
void BlockRegions::move_gap(Gaps& gaps, Gaps::iterator gap, Address begin, std::size_t size) {
  auto node = gaps.extract(gap);
  node.key() = begin;
  node.mapped() = size;
  gaps.insert(std::move(node));
}

void BlockRegions::free(void* block, std::size_t bytes) {
  const Address begin = reinterpret_cast<Address>(block);
  const std::size_t size = round_up(bytes, kAlignment);
  MutexLock lock(mu_);
  const auto region = std::prev(regions_.upper_bound(begin));
  Gaps& gaps = region->second;
  auto after = gaps.lower_bound(begin);
  const auto before = after == gaps.begin() ? gaps.end() : std::prev(after);
  const bool joins_before = before != gaps.end() && before->first + before->second == begin;
  const bool joins_after = after != gaps.end() && begin + size == after->first;
  if (joins_before) {
    before->second += size + (joins_after ? after->second : 0);
    if (joins_after) gaps.erase(after);
  } else if (joins_after) {
    move_gap(gaps, after, begin, size + after->second);
  } else {
    try {
      gaps.emplace(begin, size);
    } catch (const std::bad_alloc&) {
      return;  // lost until the region goes
    }
  }
  if (gaps.size() == 1 && gaps.begin()->second == kRegionBytes) drop_if_spare(region);
}

void BlockRegions::drop_if_spare(std::map<Address, Gaps>::iterator region) {
  const bool spare = std::any_of(regions_.begin(), regions_.end(), [&region](const auto& other) {
    return other.first != region->first && other.second.size() == 1 && other.second.begin()->second == kRegionBytes;
  });
  if (!spare) return;
  ::munmap(reinterpret_cast<void*>(region->first), kRegionBytes);
  regions_.erase(region);
}

std::size_t BlockRegions::num_regions() const {
  MutexLock lock(mu_);
  return regions_.size();
}

}  // namespace tutti

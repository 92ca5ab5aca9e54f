#include "tutti/distributed/internal/request_ids.h"

namespace tutti::internal {

// SplitMix64: a permutation of the 64-bit numbers, so a counter behind it gives each once.
std::int64_t RequestIds::next() {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
  std::uint64_t z = 0;
  while (z == 0) {
    z = next_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
  }
  return static_cast<std::int64_t>(z);
}

bool RecentRequests::is_new(std::int64_t id) {
  if (id == 0) return true;
  MutexLock lock(mu_);
  if (!known_.insert(id).second) return false;
  if (latest_.size() < kRemembered) {
    latest_.push_back(id);
    return true;
  }
  known_.erase(latest_[oldest_]);
  latest_[oldest_] = id;
  oldest_ = (oldest_ + 1) % kRemembered;
  return true;
}

}  // namespace tutti::internal

// Numbers by which a request that arrives twice is recognised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti::internal {

// Makes them: never 0, never the same again, and unlike those of another seed. Thread-safe.
class RequestIds {
 public:
  explicit RequestIds(std::uint64_t seed) : next_(seed) {}
  std::int64_t next();

 private:
  std::atomic<std::uint64_t> next_;  // guards nothing: each number is taken once
};

// Remembers the latest. Thread-safe.
class RecentRequests {
 public:
  static constexpr std::size_t kRemembered = 10'000;
  // False when it was among the latest; 0 stands for no number and is always new.
  bool is_new(std::int64_t id);

 private:
  Mutex mu_;
  std::vector<std::int64_t> latest_ TUTTI_GUARDED_BY(mu_);  // a ring once it is full
  std::size_t oldest_ TUTTI_GUARDED_BY(mu_) = 0;
  std::unordered_set<std::int64_t> known_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

// Which requests came already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tutti::internal {

// The last ids that were seen. Thread-safe.
class RecentIds {
 public:
  explicit RecentIds(std::size_t capacity = 10'000) : capacity_(capacity) {}

  // kAborted when `id` is among them: a retry of a call that had come through. 0 stands for no id.
  Status check(std::int64_t id, std::string_view method);

 private:
  const std::size_t capacity_;
  Mutex mu_;
  std::vector<std::int64_t> ring_ TUTTI_GUARDED_BY(mu_);  // grows to the capacity, then the oldest is overwritten
  std::size_t next_ TUTTI_GUARDED_BY(mu_) = 0;
  std::unordered_set<std::int64_t> seen_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

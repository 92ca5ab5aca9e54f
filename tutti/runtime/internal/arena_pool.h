// The arenas of a session: one for each step under way.
#pragma once

#include <memory>
#include <vector>

#include "tutti/core/memory_budget.h"
#include "tutti/core/mutex.h"

namespace tutti::internal {

// Lends the most recently used arena, so that a step finds memory that is warm. Thread-safe.
class ArenaPool {
 public:
  explicit ArenaPool(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}

  std::unique_ptr<Allocator> take() {
    MutexLock lock(mu_);
    if (idle_.empty()) return make_pool_allocator(account_);
    std::unique_ptr<Allocator> arena = std::move(idle_.back());
    idle_.pop_back();
    return arena;
  }
  void give_back(std::unique_ptr<Allocator> arena) {
    constexpr std::size_t kMaxIdle = 16;
    MutexLock lock(mu_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(arena));
  }

 private:
  const std::shared_ptr<MemoryAccount> account_;
  Mutex mu_;
  std::vector<std::unique_ptr<Allocator>> idle_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

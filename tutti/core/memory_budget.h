// How much memory a task may take, and who holds it.
//
// A graph of a few hundred bytes can ask for any amount of memory: in one tensor, in a chain of products, in strings
// that are joined with themselves, in a kernel's own vectors. Only some of that passes through an allocator of ours, so
// two things are compared with the limit: what accounts hold, which is exact and at once, and what the process holds as
// the system counts it, which is everything. See docs/design/0017-memory-budget.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <string>

#include "tutti/core/allocator.h"
#include "tutti/core/mutex.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_SANITIZED_ 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TUTTI_SANITIZED_ 1
#endif
#endif

namespace tutti {

// The memory that this process may use: of the machine's, or of its control group's if that has less (version 2 and 1).
std::size_t available_memory();

// Of a task. Thread-safe; held by shared_ptr, since buffers outlive sessions and tasks.
class MemoryBudget {
 public:
  // REQUIRES: limit_bytes > 0.
  explicit MemoryBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::size_t limit_bytes() const { return limit_bytes_; }
  // What its accounts hold.
  std::size_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }
  // Whether the process would still be under the limit with so many bytes more. What lies unused is given back to the
  // system before the answer is no.
  bool has_room(std::size_t bytes);

  // `reclaim` gives back to the system what its owner keeps for later. It may be called on any thread, with no lock of
  // the budget's held, until the returned registration is gone.
  using Registration = std::shared_ptr<void>;
  Registration add_reclaim(std::function<void()> reclaim);

 private:
  friend class MemoryAccount;
  struct Reclaim;
  bool fits(std::size_t bytes) const;

  const std::size_t limit_bytes_;
  std::atomic<std::size_t> held_bytes_{0};  // relaxed: a count
  std::atomic<int> accounts_{0};            // relaxed: for messages
  Mutex mu_;
  std::list<std::weak_ptr<Reclaim>> reclaims_ TUTTI_GUARDED_BY(mu_);
};

// One holder of a task's memory: a session. Thread-safe; held by shared_ptr.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::shared_ptr<MemoryBudget> budget);
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Counts so many bytes more, or, when there is no room for them, nothing.
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes);
  std::size_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }
  MemoryBudget& budget() const { return *budget_; }
  // "bytes asked for: ..., of the N bytes that the task may use ..."
  std::string shortage(std::size_t bytes) const;

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  std::atomic<std::size_t> held_bytes_{0};  // relaxed: a count
};

// As make_pool_allocator(); what it reserves is on the account.
std::unique_ptr<Allocator> make_pool_allocator(std::shared_ptr<MemoryAccount> account);

// While it lives, memory that this thread takes with `new`, or from heap_allocator(), must fit into the account's
// budget: else `new` throws a std::bad_alloc (OverBudget), and heap_allocator() returns null. A thread-local, since
// there is no way to pass an argument to the vectors and strings of hundreds of kernels.
//
// For code whose exceptions are caught around it (kernels/guard.h). Where such code calls back into code that is not
// (an executor, a rendezvous), that code has a scope of its own with no account.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryAccount* account) : before_(current_) { current_ = account; }
  ~MemoryScope() { current_ = before_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

#if defined(TUTTI_SANITIZED_)
  // The sanitizers have a `new` of their own: with them heap_allocator() alone is checked.
  static constexpr bool kChecksNew = false;
#else
  static constexpr bool kChecksNew = true;
#endif

  // Null: nothing is checked.
  static MemoryAccount* current() { return current_; }
  // Whether the calling thread may take so many bytes more. Looks at the system's count once for each megabyte.
  static bool allows(std::size_t bytes) {
    if (current_ == nullptr) return true;
    unseen_bytes_ += bytes;
    return unseen_bytes_ < kLookEvery || look(bytes);
  }
  // ": 80 bytes of ..." for messages, where there is an account; else empty.
  static std::string shortage(std::size_t bytes);

 private:
  static constexpr std::size_t kLookEvery = 1 << 20;
  static bool look(std::size_t bytes);

  static constinit thread_local MemoryAccount* current_;
  static constinit thread_local std::size_t unseen_bytes_;  // taken since the last look
  MemoryAccount* const before_;
};

// What `new` throws over the budget.
class OverBudget : public std::bad_alloc {
 public:
  OverBudget(MemoryAccount& account, std::size_t bytes) : account_(account), bytes_(bytes) {}
  const char* what() const noexcept override { return "over the memory budget"; }
  // REQUIRES: the account still lives.
  std::string shortage() const { return account_.shortage(bytes_); }

 private:
  MemoryAccount& account_;
  const std::size_t bytes_;
};

}  // namespace tutti

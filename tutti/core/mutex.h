// Mutex, MutexLock and CondVar: the standard ones with Clang's thread-safety annotations, which
// libstdc++'s own do not carry.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TUTTI_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define TUTTI_THREAD_ANNOTATION_(x)
#endif

#define TUTTI_GUARDED_BY(mutex) TUTTI_THREAD_ANNOTATION_(guarded_by(mutex))
#define TUTTI_REQUIRES(...) TUTTI_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define TUTTI_EXCLUDES(...) TUTTI_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define TUTTI_NO_THREAD_SAFETY_ANALYSIS TUTTI_THREAD_ANNOTATION_(no_thread_safety_analysis)

namespace tutti {

class TUTTI_THREAD_ANNOTATION_(capability("mutex")) Mutex {
 public:
  void lock() TUTTI_THREAD_ANNOTATION_(acquire_capability()) { mu_.lock(); }
  void unlock() TUTTI_THREAD_ANNOTATION_(release_capability()) { mu_.unlock(); }
  bool try_lock() TUTTI_THREAD_ANNOTATION_(try_acquire_capability(true)) { return mu_.try_lock(); }

 private:
  std::mutex mu_;
};

class TUTTI_THREAD_ANNOTATION_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) TUTTI_THREAD_ANNOTATION_(acquire_capability(mu)) : mu_(mu) { mu_.lock(); }
  ~MutexLock() TUTTI_THREAD_ANNOTATION_(release_capability()) { mu_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Wait in a loop over the condition: wake-ups may be spurious.
class CondVar {
 public:
  void wait(Mutex& mu) TUTTI_REQUIRES(mu) TUTTI_NO_THREAD_SAFETY_ANALYSIS { cv_.wait(mu); }
  // False when `deadline` passed.
  bool wait_until(Mutex& mu, std::chrono::steady_clock::time_point deadline)
      TUTTI_REQUIRES(mu) TUTTI_NO_THREAD_SAFETY_ANALYSIS {
    return cv_.wait_until(mu, deadline) == std::cv_status::no_timeout;
  }
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

}  // namespace tutti

// A fixed number of named threads that run what they are given, oldest first.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/thread_setup.h"

namespace tutti {

// Thread-safe. Work must not block on other work of the same pool. The destructor runs what was
// scheduled before, then joins.
class ThreadPool {
 public:
  // Threads are called "name/0", "name/1"... (cut to what the system shows). REQUIRES: num_threads >= 1.
  ThreadPool(std::string name, int num_threads, ThreadWork work = ThreadWork::kServes);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void schedule(std::function<void()> work);
  int num_threads() const { return static_cast<int>(threads_.size()); }
  // Whether the caller is one of this pool's threads.
  bool on_pool_thread() const;

 private:
  void run_threads_work();

  Mutex mu_;
  CondVar work_available_;
  std::deque<std::function<void()>> queue_ TUTTI_GUARDED_BY(mu_);
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tutti

// Threads for work that waits, or computes for long.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/services.h"

namespace tutti {

// Starts a thread when there is work and no idle thread for it, up to a limit: one that stands still holds up nobody
// else, and a program that needs none has none. Thread-safe. The destructor runs what was given before, then joins.
class ThreadsOnDemand : public BlockingRunner {
 public:
  // Threads are called `name`. REQUIRES: max_threads >= 1.
  ThreadsOnDemand(std::string name, int max_threads);
  ~ThreadsOnDemand() override;
  ThreadsOnDemand(const ThreadsOnDemand&) = delete;
  ThreadsOnDemand& operator=(const ThreadsOnDemand&) = delete;

  void run(std::function<void()> work) override;

 private:
  void serve();

  const std::string name_;
  const std::size_t max_threads_;
  Mutex mu_;
  CondVar work_available_;
  std::deque<std::function<void()>> queue_ TUTTI_GUARDED_BY(mu_);
  std::size_t idle_ TUTTI_GUARDED_BY(mu_) = 0;  // threads that wait for work
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti

#include "tutti/runtime/threads_on_demand.h"

#include <system_error>
#include <utility>

#include "tutti/core/thread_setup.h"

namespace tutti {

ThreadsOnDemand::ThreadsOnDemand(std::string name, int max_threads)
    : name_(std::move(name)), max_threads_(static_cast<std::size_t>(max_threads)) {
  TUTTI_CHECK(max_threads >= 1, "\"", name_, "\" of ", max_threads, " threads");
}

ThreadsOnDemand::~ThreadsOnDemand() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    threads.swap(threads_);
  }
  work_available_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void ThreadsOnDemand::run(std::function<void()> work) {
  MutexLock lock(mu_);
  queue_.push_back(std::move(work));
  if (queue_.size() > idle_ && threads_.size() < max_threads_) {
    try {
      threads_.emplace_back([this] {
        begin_thread(name_, ThreadWork::kServes);
        serve();
      });
    } catch (const std::system_error&) {
      // The system gives no more: the work waits for one of those that there are.
      if (threads_.empty()) throw;
    }
  }
  work_available_.notify_one();
}

void ThreadsOnDemand::serve() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      ++idle_;
      while (queue_.empty() && !stopping_) work_available_.wait(mu_);
      --idle_;
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace tutti

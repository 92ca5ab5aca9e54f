#include "tutti/core/thread_pool.h"

#include <utility>

#include "tutti/core/status.h"

namespace tutti {

namespace {

// The pool whose thread this is.
thread_local const ThreadPool* current_pool = nullptr;

// "name/3", cut before the slash so that the number stays.
std::string make_thread_name(const std::string& pool_name, int index) {
  const std::string suffix = str_cat("/", index);
  return pool_name.substr(0, kMaxThreadName - suffix.size()) + suffix;
}

}  // namespace

ThreadPool::ThreadPool(std::string name, int num_threads, ThreadWork work) {
  TUTTI_CHECK(num_threads >= 1, "thread pool \"", name, "\" of ", num_threads, " threads");
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this, thread_name = make_thread_name(name, i), work] {
      begin_thread(thread_name, work);
      run_threads_work();
    });
  }
}

ThreadPool::~ThreadPool() {
  TUTTI_CHECK(!on_pool_thread(), "a thread pool destroyed by its own work");
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  work_available_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::schedule(std::function<void()> work) {
  {
    MutexLock lock(mu_);
    queue_.push_back(std::move(work));
  }
  work_available_.notify_one();
}

bool ThreadPool::on_pool_thread() const { return current_pool == this; }

void ThreadPool::run_threads_work() {
  current_pool = this;
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !stopping_) work_available_.wait(mu_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace tutti

// Where runs go on that waited for something.
#pragma once

#include <functional>
#include <vector>

#include "tutti/core/thread_pool.h"

namespace tutti::internal {

// A run that may wait for several things at once.
class WaitingRun {
 public:
  // With what became ready when waits ended. It has not ended before.
  virtual void go_on(std::vector<int> ready) = 0;

 protected:
  ~WaitingRun() = default;
};

// Ends a wait; adds what became ready. Short, unless the run ends with it.
using EndWait = std::function<void(std::vector<int>& ready)>;

// While it lives, waits that end on this thread are gathered, and ended at its end. A run goes on once, with all that
// became ready in it; if nothing did, it needs no thread. It goes on here, if it may, instead of on its pool: a
// hand-over less. A run that comes after one that took long goes to the pool after all, beside it. Not to be nested.
class ResumeHere {
 public:
  explicit ResumeHere(bool may_run) : may_run_(may_run) { enter(); }
  ~ResumeHere();
  ResumeHere(const ResumeHere&) = delete;
  ResumeHere& operator=(const ResumeHere&) = delete;

 private:
  friend void resume(ThreadPool& pool, WaitingRun& run, EndWait end_wait);
  struct Wait {
    ThreadPool* pool;
    WaitingRun* run;
    EndWait end;
  };
  struct Resumed {
    ThreadPool* pool;
    WaitingRun* run;
    std::vector<int> ready;
  };
  void enter();
  static std::vector<Resumed> end_all(std::vector<Wait> waits);

  const bool may_run_;
  std::vector<Wait> waits_;
};

// A wait has ended, on this thread, which belongs to whoever ended it: the run goes on from the pool, or as above.
void resume(ThreadPool& pool, WaitingRun& run, EndWait end_wait);

}  // namespace tutti::internal

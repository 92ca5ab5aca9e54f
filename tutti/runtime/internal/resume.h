// Where runs go on that waited for something.
#pragma once

#include <functional>
#include <vector>

#include "tutti/core/thread_pool.h"

namespace tutti::internal {

// While it lives, runs whose waits end on this thread go on here, at its end, instead of on their pool: a hand-over
// less. What comes after one that took long goes to the pool after all, so that it runs beside it. Not to be nested.
class ResumeHere {
 public:
  ResumeHere();
  ~ResumeHere();
  ResumeHere(const ResumeHere&) = delete;
  ResumeHere& operator=(const ResumeHere&) = delete;

 private:
  friend void resume(ThreadPool& pool, std::function<void()> run);
  struct Run {
    ThreadPool* pool;
    std::function<void()> run;
  };
  std::vector<Run> runs_;
};

// A wait has ended, on this thread, which belongs to whoever ended it: the run goes on from the pool, or as above.
void resume(ThreadPool& pool, std::function<void()> run);

}  // namespace tutti::internal

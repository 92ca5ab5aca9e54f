// Waiting for several answers.
#pragma once

#include <functional>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tutti::internal {

// Calls `done` once, on the thread of the last answer, with the first error. Thread-safe.
class Gather {
 public:
  // REQUIRES: answers > 0
  Gather(std::size_t answers, std::function<void(Status)> done) : done_(std::move(done)), missing_(answers) {}

  void answer(Status status) {
    {
      MutexLock lock(mu_);
      first_.update(std::move(status));
      if (--missing_ > 0) return;
      status = first_;
    }
    done_(std::move(status));
  }

 private:
  const std::function<void(Status)> done_;
  Mutex mu_;
  std::size_t missing_ TUTTI_GUARDED_BY(mu_);
  Status first_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

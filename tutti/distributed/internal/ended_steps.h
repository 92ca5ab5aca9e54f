// Steps that a worker may forget, told with the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::internal {

// Of one worker and one session: the next RunGraph carries them. When none comes soon, a CleanupGraph each does.
// Thread-safe; held by shared_ptr.
class EndedSteps : public std::enable_shared_from_this<EndedSteps> {
 public:
  // `clock` outlives it.
  EndedSteps(std::shared_ptr<WorkerInterface> worker, Clock& clock) : worker_(std::move(worker)), clock_(clock) {}

  void add(std::int64_t step_id);
  // Those that were not told; it is on the caller that they are.
  std::vector<std::int64_t> take();
  // By a CleanupGraph each, for which nobody waits.
  void tell(const CallOptions& options = {});

 private:
  const std::shared_ptr<WorkerInterface> worker_;
  Clock& clock_;
  Mutex mu_;
  std::vector<std::int64_t> steps_ TUTTI_GUARDED_BY(mu_);
  bool timer_set_ TUTTI_GUARDED_BY(mu_) = false;
};

}  // namespace tutti::internal

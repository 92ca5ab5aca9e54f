#include "tutti/distributed/internal/recent_ids.h"

namespace tutti::internal {

Status RecentIds::check(std::int64_t id, std::string_view method) {
  if (id == 0) return {};
  MutexLock lock(mu_);
  if (!seen_.insert(id).second) {
    return aborted("The same ", method, " request was received twice (request id ", id,
                   "): it had come through when it was sent again");
  }
  if (ring_.size() < capacity_) {
    ring_.push_back(id);
    return {};
  }
  seen_.erase(ring_[next_]);
  ring_[next_] = id;
  next_ = (next_ + 1) % capacity_;
  return {};
}

}  // namespace tutti::internal

#include "tutti/distributed/internal/ended_steps.h"

#include <utility>

namespace tutti::internal {
namespace {

// Long beside a step, short beside what people notice.
constexpr std::chrono::milliseconds kSoon(100);
// What one message carries at most besides its own business.
constexpr std::size_t kMostSteps = 256;

}  // namespace

void EndedSteps::add(std::int64_t step_id) {
  bool first = false;
  bool many = false;
  {
    MutexLock lock(mu_);
    steps_.push_back(step_id);
    first = !std::exchange(timer_set_, true);
    many = steps_.size() >= kMostSteps;
  }
  if (many) tell();
  if (!first) return;
  // One that finds nothing to tell does no harm: none is taken back.
  clock_.call_at(clock_.now() + kSoon, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      {
        MutexLock lock(self->mu_);
        self->timer_set_ = false;
      }
      self->tell();
    }
  });
}

std::vector<std::int64_t> EndedSteps::take() {
  MutexLock lock(mu_);
  return std::exchange(steps_, {});
}

void EndedSteps::tell(const CallOptions& options) {
  for (const std::int64_t step_id : take()) {
    worker_->cleanup_graph({.step_id = step_id}, options, [](const Result<EmptyMessage>&) {});
  }
}

}  // namespace tutti::internal

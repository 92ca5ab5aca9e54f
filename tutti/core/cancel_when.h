// Joining a cancellation with other causes: somebody else's cancellation, a deadline.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"

namespace tutti {

// Cancels `target` when one of the causes comes, for as long as this lives or until `stop`. The causes must outlive
// that. Not thread-safe; the causes may come on any thread.
class CancelWhen {
 public:
  // `target` must outlive it.
  explicit CancelWhen(Cancellation& target) : target_(std::shared_ptr<void>(), &target) {}
  // For a target whose callbacks may drop the last other holder of it.
  explicit CancelWhen(std::shared_ptr<Cancellation> target) : target_(std::move(target)) {}
  ~CancelWhen() { stop(); }
  CancelWhen(const CancelWhen&) = delete;
  CancelWhen& operator=(const CancelWhen&) = delete;

  // With its cause; at once when it is cancelled already.
  void cancelled(Cancellation& other);
  void reached(Clock& clock, TimePoint when, Status cause);
  // After this nothing refers to the target: a cause that was under way on another thread has returned.
  void stop();

 private:
  const std::shared_ptr<Cancellation> target_;
  std::vector<std::pair<Cancellation*, Cancellation::Token>> others_;
  std::vector<std::pair<Clock*, Clock::TimerId>> timers_;
};

}  // namespace tutti

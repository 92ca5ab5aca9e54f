// The two ways in which a caller ends what it asked for: its deadline and its cancellation.
#pragma once

#include <functional>
#include <optional>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"

namespace tutti::internal {

// Watches both from start() to stop(). Thread-safe.
class CallWatch {
 public:
  // Both outlive the watching.
  CallWatch(Clock& clock, Cancellation* cancellation, std::optional<TimePoint> deadline)
      : clock_(clock), cancellation_(cancellation), deadline_(deadline) {}
  ~CallWatch() { stop(); }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Either may be called, on any thread, before this returns too; no lock held.
  void start(std::function<void(Status cause)> cancelled, std::function<void()> expired);
  // Neither runs any more when this returns, unless it is called from one of them. Idempotent.
  void stop();

 private:
  Clock& clock_;
  Cancellation* const cancellation_;
  const std::optional<TimePoint> deadline_;

  Mutex mu_;
  bool stopped_ TUTTI_GUARDED_BY(mu_) = false;
  Cancellation::Token token_ TUTTI_GUARDED_BY(mu_) = 0;
  std::optional<Clock::TimerId> timer_ TUTTI_GUARDED_BY(mu_);
};

// The earlier of the two, where given.
std::optional<TimePoint> earlier(std::optional<TimePoint> a, std::optional<TimePoint> b);
// `timeout` from `now` on; nothing when it is 0 or beyond what the clock can tell.
std::optional<TimePoint> deadline_after(TimePoint now, std::chrono::milliseconds timeout);
// "1500 ms"
std::string milliseconds(Duration duration);

}  // namespace tutti::internal

#include "tutti/distributed/internal/call_watch.h"

#include <algorithm>

namespace tutti::internal {

void CallWatch::start(std::function<void(Status cause)> cancelled, std::function<void()> expired) {
  if (cancellation_ != nullptr) {
    const Cancellation::Token token =
        cancellation_->register_callback([this, cancelled] { cancelled(cancellation_->status()); });
    if (token == 0) return cancelled(cancellation_->status());
    bool stopped = false;
    {
      MutexLock lock(mu_);
      stopped = stopped_;
      if (!stopped) token_ = token;
    }
    // It was cancelled, and ended for that, in between.
    if (stopped) {
      cancellation_->deregister(token);
      return;
    }
  }
  if (!deadline_) return;
  const Clock::TimerId timer = clock_.call_at(*deadline_, std::move(expired));
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
    if (!stopped) timer_ = timer;
  }
  if (stopped) clock_.cancel_timer(timer);
}

void CallWatch::stop() {
  Cancellation::Token token = 0;
  std::optional<Clock::TimerId> timer;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    token = std::exchange(token_, 0);
    timer = std::exchange(timer_, std::nullopt);
  }
  if (token != 0) cancellation_->deregister(token);
  if (timer) clock_.cancel_timer(*timer);
}

std::optional<TimePoint> earlier(std::optional<TimePoint> a, std::optional<TimePoint> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<TimePoint> deadline_after(TimePoint now, std::chrono::milliseconds timeout) {
  // Ten years are no limit, and adding more could overflow.
  constexpr std::chrono::hours kForever(24 * 3652);
  if (timeout.count() <= 0 || timeout > kForever) return std::nullopt;
  return now + timeout;
}

std::string milliseconds(Duration duration) {
  return str_cat(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count(), " ms");
}

}  // namespace tutti::internal

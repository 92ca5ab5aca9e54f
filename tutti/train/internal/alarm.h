// Waiting on a condition until a moment of a Clock.
#pragma once

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"

namespace tutti::internal {

// Wakes the waiters of `changed` at `when`. Made before `mu` is taken and gone after it is released: the clock's thread
// takes it too.
class Alarm {
 public:
  Alarm(Clock& clock, TimePoint when, Mutex& mu, CondVar& changed)
      : clock_(clock), id_(clock.call_at(when, [&mu, &changed] {
          MutexLock lock(mu);
          changed.notify_all();
        })) {}
  ~Alarm() { clock_.cancel_timer(id_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  Clock& clock_;
  const Clock::TimerId id_;
};

}  // namespace tutti::internal

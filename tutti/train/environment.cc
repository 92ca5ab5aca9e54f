#include "tutti/train/environment.h"

#include <cstdio>

#include "tutti/core/cancellation.h"
#include "tutti/train/internal/alarm.h"
#include "tutti/train/internal/on_cancel.h"

namespace tutti {

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

void Environment::wait(Duration duration) const {
  Mutex mu;
  CondVar changed;
  const TimePoint deadline = clock->now() + duration;
  internal::Alarm alarm(*clock, deadline, mu, changed);
  internal::OnCancel cancel(cancellation, [&] {
    MutexLock lock(mu);
    changed.notify_all();
  });
  MutexLock lock(mu);
  while (clock->now() < deadline) {
    if (cancellation != nullptr && cancellation->cancelled()) throw_error(cancellation->status());
    changed.wait(mu);
  }
}

}  // namespace tutti

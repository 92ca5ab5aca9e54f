#include "tutti/train/environment.h"

#include <cstdio>

#include "tutti/core/cancellation.h"
#include "tutti/train/internal/alarm.h"

namespace tutti {
namespace {

// Calls back while it lives; at once where the cancellation came before.
class OnCancel {
 public:
  OnCancel(Cancellation* cancellation, std::function<void()> callback) : cancellation_(cancellation) {
    if (cancellation_ != nullptr) token_ = cancellation_->register_callback(std::move(callback));
  }
  ~OnCancel() {
    if (token_ != 0) cancellation_->deregister(token_);
  }

 private:
  Cancellation* const cancellation_;
  Cancellation::Token token_ = 0;
};

}  // namespace

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

void Environment::wait(Duration duration) const {
  Mutex mu;
  CondVar changed;
  const TimePoint deadline = clock->now() + duration;
  internal::Alarm alarm(*clock, deadline, mu, changed);
  OnCancel cancel(cancellation, [&] {
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

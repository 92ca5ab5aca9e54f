// Time as an interface, so that tests can hold it still and move it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace tutti {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Thread-safe.
class Clock {
 public:
  using TimerId = std::uint64_t;

  virtual ~Clock() = default;
  // Monotonic.
  virtual TimePoint now() const = 0;
  // Microseconds since 1970, for stamps that people and files see.
  virtual std::int64_t wall_micros() const = 0;
  // Calls `callback` once, on a thread of the clock, at or after `when`. The callback must be short.
  virtual TimerId call_at(TimePoint when, std::function<void()> callback) = 0;
  // True: it did not and will not run. False: it ran; when this returns it is no longer running
  // (unless called from the callback itself).
  virtual bool cancel_timer(TimerId id) = 0;
};

// The machine's time. Its one timer thread starts with the first call_at. Timers that are not due when
// the clock is destroyed do not run.
std::unique_ptr<Clock> make_system_clock();

// Stands still until `advance`, which runs the timers that fall due, in order, on the caller's thread; each
// sees the time it was set for. Timers set by timers run in the same call when they fall due in it.
class ManualClock : public Clock {
 public:
  ManualClock();
  ~ManualClock() override;
  TimePoint now() const override;
  std::int64_t wall_micros() const override;
  TimerId call_at(TimePoint when, std::function<void()> callback) override;
  bool cancel_timer(TimerId id) override;
  void advance(Duration by);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti

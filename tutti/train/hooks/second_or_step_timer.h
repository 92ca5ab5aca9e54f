// When something is due: every so many seconds, or every so many steps.
#pragma once

#include <cstdint>
#include <optional>

#include "tutti/core/clock.h"

namespace tutti {

// A value; times are a Clock's.
class SecondOrStepTimer {
 public:
  // kInvalidArgument unless exactly one is given and above zero.
  SecondOrStepTimer(std::optional<double> every_secs, std::optional<std::int64_t> every_steps);

  void reset() { last_.reset(); }
  // True the first time; never twice for one step.
  bool should_trigger_for_step(std::int64_t step, TimePoint now) const;
  struct Elapsed {
    double secs;
    std::int64_t steps;
  };
  // Notes that it was done; gives what passed since the time before, if there was one.
  std::optional<Elapsed> update_last_triggered_step(std::int64_t step, TimePoint now);
  std::optional<std::int64_t> last_triggered_step() const;

 private:
  struct Last {
    std::int64_t step;
    TimePoint time;
  };
  std::optional<Duration> every_;
  std::optional<std::int64_t> every_steps_;
  std::optional<Last> last_;
};

}  // namespace tutti

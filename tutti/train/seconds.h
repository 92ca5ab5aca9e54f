// Seconds as people give them, and as clocks take them.
#pragma once

#include <algorithm>
#include <chrono>

#include "tutti/core/clock.h"

namespace tutti {

// Any number of seconds: what no clock could count is cut to a hundred years, NaN and what is negative to nothing.
inline Duration seconds(double secs) {
  constexpr double kHundredYears = 3.2e9;
  const double usable = secs > 0 ? std::min(secs, kHundredYears) : 0;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(usable));
}
inline double to_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace tutti

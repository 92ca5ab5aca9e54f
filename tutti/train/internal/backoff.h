// Waiting a little longer after each failure.
#pragma once

#include <algorithm>
#include <optional>

#include "tutti/core/clock.h"

namespace tutti::internal {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(50);
  static constexpr Duration kMost = std::chrono::seconds(1);

  // `fixed`: always so long.
  explicit Backoff(std::optional<Duration> fixed = std::nullopt) : fixed_(fixed), next_(fixed.value_or(kFirst)) {}

  Duration next() {
    const Duration now = next_;
    if (!fixed_) next_ = std::min(2 * next_, kMost);
    return now;
  }

 private:
  std::optional<Duration> fixed_;
  Duration next_;
};

}  // namespace tutti::internal

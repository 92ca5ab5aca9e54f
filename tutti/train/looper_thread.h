// A thread that does the same thing again and again until its coordinator stops.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tutti/core/clock.h"

namespace tutti {

class Coordinator;

struct LooperOptions {
  std::string name = "looper";
  // From the beginning of a call to that of the next; a call that takes longer is followed by the next one at once.
  // Nothing: one after the other.
  std::optional<Duration> interval;
  std::function<void()> start = nullptr;  // before the first call
  std::function<void()> stop = nullptr;   // after the last; not when one threw
};

// Starts a thread of `coordinator` (which ends it) that calls `target` until a stop; what it throws stops everybody.
// `clock`: the coordinator's.
void start_looper(Coordinator& coordinator, Clock& clock, std::function<void()> target, LooperOptions options = {});

}  // namespace tutti

// One simulated run: clients train while tasks crash and links break, all as a seed says; then everything is repaired
// and what must hold is checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster.h"

namespace tutti::sim {

struct ScheduleOptions {
  Planted planted = Planted::kNone;
  // Where each event is told, for people; null: nowhere.
  std::function<void(const std::string& line)> trace;
};

struct ScheduleResult {
  // What does not hold, each with its values; empty: all is well.
  std::vector<std::string> violations;
  std::int64_t steps_succeeded = 0;
  std::int64_t steps_failed = 0;
  std::int64_t calls = 0;  // over the network
};

// The same seed gives the same run. The invariants:
//  1. Everything that a client asks for is answered, a step exactly once.
//  2. A step's result is its own: the value that was fed comes back.
//  3. A step changes each variable at most once, and exactly once where it succeeded.
//  4. No step has effects in an incarnation of a task that began after its session.
//  5. When all is repaired, every step of new sessions succeeds, and nothing of old steps and sessions is left, also of
//     those whose clients have crashed.
//  6. Nobody believes that an incarnation that was replaced has come back.
ScheduleResult run_schedule(std::uint64_t seed, const ScheduleOptions& options = {});

}  // namespace tutti::sim

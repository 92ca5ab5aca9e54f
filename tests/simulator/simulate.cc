// Runs simulated schedules of a cluster, or one of them again with everything that happens.
//
//   simulate COUNT [FIRST_SEED]   runs that many, prints the seeds that fail
//   simulate replay SEED          runs one and tells it
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "schedule.h"

using namespace tutti;

namespace {

int replay(std::uint64_t seed) {
  sim::ScheduleOptions options;
  options.trace = [](const std::string& line) { std::puts(line.c_str()); };
  const sim::ScheduleResult result = sim::run_schedule(seed, options);
  std::printf("seed %llu: %lld steps succeeded, %lld failed, %zu violations\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(result.steps_succeeded), static_cast<long long>(result.steps_failed),
              result.violations.size());
  return result.violations.empty() ? 0 : 1;
}

int run_many(std::uint64_t count, std::uint64_t first) {
  const auto start = std::chrono::steady_clock::now();
  long long succeeded = 0, failed = 0, calls = 0, bad = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const sim::ScheduleResult result = sim::run_schedule(seed);
    succeeded += result.steps_succeeded;
    failed += result.steps_failed;
    calls += result.calls;
    if (result.violations.empty()) continue;
    ++bad;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.violations[0].c_str());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "%llu schedules in %.1f s (%.0f a second): %lld steps succeeded, %lld failed, %lld calls; %lld schedules went "
      "wrong\n",
      static_cast<unsigned long long>(count), seconds, static_cast<double>(count) / seconds, succeeded, failed, calls,
      bad);
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "replay") return replay(std::strtoull(argv[2], nullptr, 10));
  if (argc == 2 || argc == 3) {
    const std::uint64_t count = std::strtoull(argv[1], nullptr, 10);
    if (count > 0) return run_many(count, argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 1);
  }
  std::fprintf(stderr, "usage: simulate COUNT [FIRST_SEED] | simulate replay SEED\n");
  return 2;
}

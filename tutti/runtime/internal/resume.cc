#include "tutti/runtime/internal/resume.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tutti::internal {
namespace {

// Much more than a hand-over costs.
constexpr std::chrono::microseconds kLong{100};

thread_local ResumeHere* here = nullptr;

}  // namespace

void ResumeHere::enter() { here = this; }

// A run whose waits have not all been ended is still there: a pointer is the same run.
std::vector<ResumeHere::Resumed> ResumeHere::end_all(std::vector<Wait> waits) {
  std::vector<Resumed> runs;
  for (Wait& wait : waits) {
    auto of_run = std::find_if(runs.begin(), runs.end(), [&](const Resumed& known) { return known.run == wait.run; });
    if (of_run == runs.end()) of_run = runs.insert(runs.end(), {wait.pool, wait.run, {}});
    wait.end(of_run->ready);
  }
  std::erase_if(runs, [](const Resumed& run) { return run.ready.empty(); });
  return runs;
}

ResumeHere::~ResumeHere() {
  const auto start = std::chrono::steady_clock::now();
  bool ran = false;
  // What runs may end further waits.
  while (!waits_.empty()) {
    for (Resumed& next : end_all(std::exchange(waits_, {}))) {
      if (!may_run_ || (std::exchange(ran, true) && std::chrono::steady_clock::now() - start > kLong)) {
        next.pool->schedule([run = next.run, ready = std::move(next.ready)] { run->go_on(ready); });
      } else {
        next.run->go_on(std::move(next.ready));
      }
    }
  }
  here = nullptr;
}

void resume(ThreadPool& pool, WaitingRun& run, EndWait end_wait) {
  if (here != nullptr) {
    here->waits_.push_back({&pool, &run, std::move(end_wait)});
    return;
  }
  pool.schedule([&run, end_wait = std::move(end_wait)] {
    std::vector<int> ready;
    end_wait(ready);
    if (!ready.empty()) run.go_on(std::move(ready));
  });
}

}  // namespace tutti::internal

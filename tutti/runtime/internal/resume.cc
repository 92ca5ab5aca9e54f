#include "tutti/runtime/internal/resume.h"

#include <chrono>
#include <utility>

namespace tutti::internal {
namespace {

// Much more than a hand-over costs.
constexpr std::chrono::microseconds kLong{100};

thread_local ResumeHere* here = nullptr;

}  // namespace

ResumeHere::ResumeHere() { here = this; }

ResumeHere::~ResumeHere() {
  const auto start = std::chrono::steady_clock::now();
  // What they end in turn is added meanwhile.
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run next = std::move(runs_[i]);
    if (i > 0 && std::chrono::steady_clock::now() - start > kLong) {
      next.pool->schedule(std::move(next.run));
    } else {
      next.run();
    }
  }
  here = nullptr;
}

void resume(ThreadPool& pool, std::function<void()> run) {
  if (here == nullptr) return pool.schedule(std::move(run));
  here->runs_.push_back({&pool, std::move(run)});
}

}  // namespace tutti::internal

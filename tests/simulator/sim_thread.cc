#include "sim_thread.h"

#include <algorithm>
#include <utility>

#include "tutti/core/status.h"

namespace tutti::sim {
namespace {

// Between looks at a condition, for which a thread that is woken runs later; each is twice as long as the one before.
constexpr auto kFirstLook = std::chrono::microseconds(500);
constexpr auto kLastLook = std::chrono::milliseconds(8);

}  // namespace

SimThread::SimThread(ManualClock& clock, std::function<void()> body) : clock_(clock), body_(std::move(body)) {
  thread_ = std::thread([this] { run(); });
  clock_.call_at(clock_.now(), [this] { resume(); });
}

SimThread::~SimThread() {
  TUTTI_CHECK(finished_, "a simulated thread is still waiting");
  thread_.join();
}

void SimThread::run() {
  {
    MutexLock lock(mu_);
    while (turn_ != Turn::kThread) changed_.wait(mu_);
  }
  body_();
  finished_ = true;
  {
    MutexLock lock(mu_);
    turn_ = Turn::kSimulation;
  }
  changed_.notify_one();
}

void SimThread::hand_over(Turn next) {
  Turn own;
  {
    MutexLock lock(mu_);
    own = std::exchange(turn_, next);
  }
  // Without the lock, for which the other would have to wait at once. Only one waits at a time.
  changed_.notify_one();
  MutexLock lock(mu_);
  while (turn_ != own) changed_.wait(mu_);
}

void SimThread::resume() { hand_over(Turn::kThread); }

void SimThread::pause() { hand_over(Turn::kSimulation); }

void SimThread::look_at(const std::atomic<bool>& condition, Duration after) {
  clock_.call_at(clock_.now() + after, [this, &condition, after] {
    condition ? resume() : look_at(condition, std::min<Duration>(2 * after, kLastLook));
  });
}

void SimThread::wait_for(const std::atomic<bool>& condition) {
  if (condition) return;
  look_at(condition, kFirstLook);
  pause();
}

void SimThread::sleep(Duration duration) {
  clock_.call_at(clock_.now() + duration, [this] { resume(); });
  pause();
}

}  // namespace tutti::sim

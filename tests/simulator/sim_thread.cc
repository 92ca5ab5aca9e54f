#include "sim_thread.h"

#include <utility>

#include "tutti/core/status.h"

namespace tutti::sim {
namespace {

// Between looks at a condition: a thread that is woken runs a little later.
constexpr auto kLook = std::chrono::microseconds(500);

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
  MutexLock lock(mu_);
  turn_ = Turn::kSimulation;
  changed_.notify_all();
}

void SimThread::hand_over(Turn next) {
  MutexLock lock(mu_);
  const Turn own = std::exchange(turn_, next);
  changed_.notify_all();
  while (turn_ != own) changed_.wait(mu_);
}

void SimThread::resume() { hand_over(Turn::kThread); }

void SimThread::pause() { hand_over(Turn::kSimulation); }

void SimThread::look_at(const std::atomic<bool>& condition) {
  clock_.call_at(clock_.now() + kLook, [this, &condition] { condition ? resume() : look_at(condition); });
}

void SimThread::wait_for(const std::atomic<bool>& condition) {
  if (condition) return;
  look_at(condition);
  pause();
}

void SimThread::sleep(Duration duration) {
  clock_.call_at(clock_.now() + duration, [this] { resume(); });
  pause();
}

}  // namespace tutti::sim

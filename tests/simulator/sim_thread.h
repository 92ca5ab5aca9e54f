// A thread in simulated time, for code that waits: it runs only while the simulation stands still for it.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"

namespace tutti::sim {

// `body` begins with the next advance of the clock. One of the two threads runs at a time, so that what they share
// needs no lock and the same seed gives the same run.
class SimThread {
 public:
  SimThread(ManualClock& clock, std::function<void()> body);
  // REQUIRES: finished().
  ~SimThread();

  bool finished() const { return finished_; }

  // From the body: simulated time passes until then.
  void wait_for(const std::atomic<bool>& condition);
  void sleep(Duration duration);

 private:
  enum class Turn { kSimulation, kThread };
  void run();
  // From the simulation: the thread goes on until it waits again or ends.
  void resume();
  // From the thread: the simulation goes on until it resumes this.
  void pause();
  void hand_over(Turn next);
  void look_at(const std::atomic<bool>& condition, Duration after);

  ManualClock& clock_;
  const std::function<void()> body_;
  Mutex mu_;
  CondVar changed_;
  Turn turn_ TUTTI_GUARDED_BY(mu_) = Turn::kSimulation;
  bool finished_ = false;  // written by the thread, in its turn
  std::thread thread_;
};

}  // namespace tutti::sim

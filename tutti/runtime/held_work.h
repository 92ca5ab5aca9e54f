// Short work that waits until a thread is done with what it does, so that several pieces are done in one go.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace tutti {

// While it lives, work that is held on this thread waits for its end: answers with values that a step sends one after
// the other go out together. It does not wait behind anything long: kernels that compute for long run it first, and so
// does whoever holds more when the first has waited for some time. Inside another one it does nothing.
class HeldWork {
 public:
  HeldWork();
  ~HeldWork();
  HeldWork(const HeldWork&) = delete;
  HeldWork& operator=(const HeldWork&) = delete;

  // False: nothing is held on this thread; the caller does it now.
  static bool hold(std::function<void()> work);
  // The same for what nobody is in a hurry for: neither what is long nor time makes it run, only the end.
  static bool hold_to_end(std::function<void()> work);
  // Whether there is something for run_now.
  static bool waits();
  // Something long follows.
  static void run_now();
  // This is as good as the end.
  static void run_all();

 private:
  void run();
  void end();

  const bool outermost_;
  std::chrono::steady_clock::time_point since_;  // of the first that waits
  std::vector<std::function<void()>> work_;
  std::vector<std::function<void()>> at_end_;
};

}  // namespace tutti

// Looking at rings for a moment before sleeping.
//
// A wake-up costs both sides a system call and the sleeper some 20 us; a look at a ring costs nothing that is noticed.
// Who answers at once, or asks again at once, is therefore waited for awake. What that may cost is bounded: only after
// messages that came close together, for some 50 us, by one thread of a transport at a time, which leaves its core to
// whoever wants it; and it is given up for a while when it does not pay.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti::shm {

// Something whose input comes through memory. Thread-safe.
class Polled {
 public:
  virtual ~Polled() = default;
  // The peer need not ring: somebody looks.
  virtual void begin_polling() = 0;
  virtual bool has_input() const = 0;
  // The peer has to ring again. True: there is input that it did not ring for.
  virtual bool end_polling() = 0;
  // Takes in what there is; afterwards the peer has to ring.
  virtual void take_input() = 0;
};

// Thread-safe.
class Poller {
 public:
  // False: poll() never looks.
  explicit Poller(bool enabled);

  // Something came in over `who`.
  void came_in(const std::weak_ptr<Polled>& who);
  // How long the next message is to be awaited awake: about twice as long as those took that came, 50 us at most; 0
  // when messages do not come close together.
  std::chrono::nanoseconds patience();
  // Looks at those over which something came in lately, until there is more, `enough` says so or `patience` has passed.
  // Gives those that have input, for the caller to take it in; none also when another thread looks already.
  std::vector<std::shared_ptr<Polled>> poll(std::chrono::nanoseconds patience, const std::function<bool()>& enough);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Recent {
    std::weak_ptr<Polled> who;
    Time when;
  };
  std::vector<std::shared_ptr<Polled>> recent(Time now);
  enum class Outcome { kFound, kMissed, kTaken };
  void note(Outcome outcome, Time now, std::chrono::nanoseconds took);

  const bool enabled_;
  std::atomic<bool> polling_{false};  // one thread does

  Mutex mu_;
  std::vector<Recent> recent_ TUTTI_GUARDED_BY(mu_);  // the latest first
  Time last_input_ TUTTI_GUARDED_BY(mu_){};
  bool close_ TUTTI_GUARDED_BY(mu_) = false;              // the last two inputs were close together
  std::chrono::nanoseconds usual_ TUTTI_GUARDED_BY(mu_);  // time that what came took
  std::uint32_t misses_ TUTTI_GUARDED_BY(mu_) = 0;        // times in a row that nothing came
  std::uint32_t skipped_ TUTTI_GUARDED_BY(mu_) = 0;       // occasions let pass since the last look
  Time rest_until_ TUTTI_GUARDED_BY(mu_){};               // the cores are wanted by others
  std::chrono::nanoseconds rest_ TUTTI_GUARDED_BY(mu_);   // how long the next time
};

}  // namespace tutti::shm

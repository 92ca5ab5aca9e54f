#include "tutti/core/clock.h"

#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/core/thread_setup.h"

namespace tutti {

namespace {

// The pending timers of a clock, by time and then by order of setting, and those that run now.
class Timers {
 public:
  using TimerId = Clock::TimerId;

  Mutex mu;

  TimerId add(TimePoint when, std::function<void()> callback) TUTTI_REQUIRES(mu) {
    const TimerId id = next_id_++;
    pending_.emplace(Key(when, id), std::move(callback));
    times_.emplace(id, when);
    return id;
  }

  // Takes the callback out into `removed`, for the caller to destroy without the lock. When it runs on
  // another thread, waits for its end.
  bool cancel(TimerId id, std::function<void()>& removed) TUTTI_REQUIRES(mu) {
    if (const auto time = times_.find(id); time != times_.end()) {
      auto node = pending_.extract(Key(time->second, id));
      removed = std::move(node.mapped());
      times_.erase(time);
      return true;
    }
    while (runs_elsewhere(id)) callback_done_.wait(mu);
    return false;
  }

  std::optional<TimePoint> next_time() const TUTTI_REQUIRES(mu) {
    if (pending_.empty()) return std::nullopt;
    return pending_.begin()->first.first;
  }

  // Runs the first timer with the lock released meanwhile. REQUIRES: there is one.
  void run_first() TUTTI_REQUIRES(mu) {
    auto node = pending_.extract(pending_.begin());
    const TimerId id = node.key().second;
    times_.erase(id);
    running_.emplace(id, std::this_thread::get_id());
    mu.unlock();
    node.mapped()();
    node = {};  // what the callback captured goes before anyone is told that it returned
    mu.lock();
    running_.erase(id);
    callback_done_.notify_all();
  }

 private:
  using Key = std::pair<TimePoint, TimerId>;

  bool runs_elsewhere(TimerId id) const TUTTI_REQUIRES(mu) {
    const auto running = running_.find(id);
    return running != running_.end() && running->second != std::this_thread::get_id();
  }

  CondVar callback_done_;
  TimerId next_id_ TUTTI_GUARDED_BY(mu) = 1;
  std::map<Key, std::function<void()>> pending_ TUTTI_GUARDED_BY(mu);
  std::map<TimerId, TimePoint> times_ TUTTI_GUARDED_BY(mu);
  std::map<TimerId, std::thread::id> running_ TUTTI_GUARDED_BY(mu);
};

class SystemClock : public Clock {
 public:
  ~SystemClock() override {
    {
      MutexLock lock(timers_.mu);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  std::int64_t wall_micros() const override {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  }

  TimerId call_at(TimePoint when, std::function<void()> callback) override {
    MutexLock lock(timers_.mu);
    const TimerId id = timers_.add(when, std::move(callback));
    if (!thread_started_) {
      thread_started_ = true;
      thread_ = std::thread([this] { run_thread(); });
    }
    if (timers_.next_time() == when) changed_.notify_all();
    return id;
  }

  bool cancel_timer(TimerId id) override {
    std::function<void()> removed;
    MutexLock lock(timers_.mu);
    return timers_.cancel(id, removed);
  }

 private:
  void run_thread() {
    begin_thread("clock");
    MutexLock lock(timers_.mu);
    while (!stopping_) {
      const std::optional<TimePoint> next = timers_.next_time();
      if (!next) {
        changed_.wait(timers_.mu);
      } else if (*next > now()) {
        changed_.wait_until(timers_.mu, *next);
      } else {
        timers_.run_first();
      }
    }
  }

  Timers timers_;
  CondVar changed_;  // an earlier timer, or the end
  bool stopping_ TUTTI_GUARDED_BY(timers_.mu) = false;
  bool thread_started_ TUTTI_GUARDED_BY(timers_.mu) = false;
  std::thread thread_;  // written once under timers_.mu, then read by the destructor only
};

}  // namespace

std::unique_ptr<Clock> make_system_clock() { return std::make_unique<SystemClock>(); }

struct ManualClock::State {
  // Any fixed moment does. It is not zero, so that tests can subtract from now().
  static constexpr TimePoint kStart = TimePoint(std::chrono::hours(1000));
  static constexpr std::int64_t kStartWallMicros = 1'700'000'000'000'000;

  Timers timers;
  TimePoint now TUTTI_GUARDED_BY(timers.mu) = kStart;
};

ManualClock::ManualClock() : state_(std::make_unique<State>()) {}
ManualClock::~ManualClock() = default;

TimePoint ManualClock::now() const {
  MutexLock lock(state_->timers.mu);
  return state_->now;
}

std::int64_t ManualClock::wall_micros() const {
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(now() - State::kStart);
  return State::kStartWallMicros + passed.count();
}

Clock::TimerId ManualClock::call_at(TimePoint when, std::function<void()> callback) {
  MutexLock lock(state_->timers.mu);
  return state_->timers.add(when, std::move(callback));
}

bool ManualClock::cancel_timer(TimerId id) {
  std::function<void()> removed;
  MutexLock lock(state_->timers.mu);
  return state_->timers.cancel(id, removed);
}

void ManualClock::advance(Duration by) {
  State& state = *state_;
  MutexLock lock(state.timers.mu);
  const TimePoint target = state.now + by;
  while (true) {
    const std::optional<TimePoint> next = state.timers.next_time();
    if (!next || *next > target) break;
    if (*next > state.now) state.now = *next;
    state.timers.run_first();
  }
  // A timer may itself have advanced the clock further.
  if (target > state.now) state.now = target;
}

}  // namespace tutti

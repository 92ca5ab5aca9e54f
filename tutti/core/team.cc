#include "tutti/core/team.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "tutti/core/flush_denormals.h"
#include "tutti/core/memory_budget.h"
#include "tutti/core/status.h"
#include "tutti/core/thread_setup.h"

namespace tutti {
namespace {

// Polls before sleeping, about 0.4 ms: longer than most gaps between the loops of a step, and than a caller waits for
// the last pieces of helpers (MLP steps on two threads are 10 % faster than with a quarter of it). On cores that others
// want, helpers poll much less.
constexpr int kMaxSpins = 8000;
constexpr int kMinSpins = 128;
// After so many, some 10 µs, whoever else is ready gets the core: threads that compute take it from nobody
// (thread_setup.h), so one that polls has to offer it. That it was taken counts as a preemption.
constexpr int kSpinsBeforeYield = 200;

using Nanoseconds = std::chrono::nanoseconds;

// A helper that had to wait so long for a core when it was woken came too late for most loops.
constexpr std::chrono::microseconds kLate{50};
// When more than half of the last wake-ups were late, cores are wanted by others, and helpers only take from those:
// they are not woken for a while, which doubles each time. (Two parameter servers and two workers on two cores, two
// threads each: a fifth of the processor time of a step went into helping.)
constexpr int kCrowded = 128;  // of 256
constexpr int kQuiet = 32;
constexpr int kAfterRest = 96;
constexpr std::chrono::milliseconds kFirstRest{10};
constexpr std::chrono::milliseconds kMostRest{640};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until `is_over` or as often as this. Gives how many polls were left.
template <typename IsOver>
int poll(int spins, const IsOver& is_over) {
  int polls = 0;
  for (; polls < spins && !is_over(); ++polls) {
    if (polls % kSpinsBeforeYield == kSpinsBeforeYield - 1) {
      std::this_thread::yield();
    } else {
      pause_briefly();
    }
  }
  return spins - polls;
}

// How often the system has taken the core away from the calling thread.
long count_preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// How long the calling thread, which made it, was ready to run and had no core. Nothing where the system does not say.
class DelayCounter {
 public:
  DelayCounter() : fd_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~DelayCounter() {
    if (fd_ >= 0) ::close(fd_);
  }
  DelayCounter(const DelayCounter&) = delete;
  DelayCounter& operator=(const DelayCounter&) = delete;

  // "time on a core, time without one, turns"
  std::optional<Nanoseconds> read() const {
    char text[96];
    const ssize_t size = fd_ >= 0 ? ::pread(fd_, text, sizeof text - 1, 0) : -1;
    if (size <= 0) return std::nullopt;
    text[size] = '\0';
    const char* second = std::strchr(text, ' ');
    if (second == nullptr) return std::nullopt;
    return Nanoseconds(std::strtoll(second, nullptr, 10));
  }

 private:
  const int fd_;
};

// Whether helping is of use, or the cores are wanted by others.
class Crowd {
 public:
  void falls_asleep() { before_ = delays_.read(); }
  // It was woken. Gives how long it is not to be woken again.
  Nanoseconds woken() {
    const std::optional<Nanoseconds> now = delays_.read();
    if (!now || !before_) return Nanoseconds(0);
    const bool late = *now - *before_ > kLate;
    crowded_ += ((late ? 256 : 0) - crowded_) / 8;
    if (crowded_ < kQuiet) rest_ = kFirstRest;
    if (crowded_ <= kCrowded) return Nanoseconds(0);
    crowded_ = kAfterRest;
    return std::exchange(rest_, std::min<Nanoseconds>(2 * rest_, kMostRest));
  }

 private:
  const DelayCounter delays_;
  std::optional<Nanoseconds> before_;
  int crowded_ = 0;  // of 256 wake-ups, how many were late
  Nanoseconds rest_ = kFirstRest;
};

// Not on the condition that loops are told by: that is for those who sleep. In slices, so that a team can end.
void rest(Nanoseconds duration, const std::atomic<bool>& stopping) {
  for (; duration.count() > 0 && !stopping.load(std::memory_order_relaxed); duration -= kFirstRest) {
    std::this_thread::sleep_for(std::min<Nanoseconds>(duration, kFirstRest));
  }
}

}  // namespace

// How long a helper polls: the system takes its core away when others want it. And when it is not to be woken at all.
struct Team::Patience {
  int spins = kMaxSpins;
  long preemptions = count_preemptions();
  Crowd crowd;
  Nanoseconds rest{0};

  void renew() {
    const long now = count_preemptions();
    spins = now != preemptions ? kMinSpins : std::min(kMaxSpins, 2 * spins);
    preemptions = now;
  }
  // In vain: when there was nothing left to do.
  void woken(bool in_vain) {
    rest = crowd.woken();
    if (in_vain) spins = kMinSpins / 2;
  }
};

// Lives on its caller's stack until no helper is in it.
struct Team::Loop {
  const int pieces;
  void (*const call)(const void*, int);
  const void* const piece;
  MemoryAccount* const account = MemoryScope::current();  // of its caller; of all who help, too
  std::atomic<int> next{0};
  std::atomic<int> helpers{0};  // written under the team's lock
  std::exception_ptr error{};   // the first that a piece threw; under the team's lock until all have left
};

Team::Team(int size, LoopCut cut) : size_(size), cut_(cut) { TUTTI_CHECK(size >= 1, "a team of ", size, " threads"); }

Team::~Team() {
  std::vector<std::thread> helpers;
  {
    MutexLock lock(mu_);
    TUTTI_CHECK(loops_.empty(), "a team destroyed while it works");
    stopping_ = true;
    helpers.swap(helpers_);
  }
  loop_added_.notify_all();
  for (std::thread& helper : helpers) helper.join();
}

Team& Team::alone() {
  static Team team(1);  // has no thread and no state
  return team;
}

void Team::run_shared(int pieces, void (*call)(const void*, int), const void* piece) {
  Loop loop{.pieces = pieces, .call = call, .piece = piece};
  bool wake = false;
  {
    MutexLock lock(mu_);
    if (helpers_.empty()) start_helpers();
    loops_.push_back(&loop);
    open_loops_.fetch_add(1, std::memory_order_release);
    wake = sleeping_ > 0;
  }
  if (wake) pieces > 2 ? loop_added_.notify_all() : loop_added_.notify_one();
  work_on(loop);
  leave(loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

void Team::work_on(Loop& loop) {
  for (int i = loop.next.fetch_add(1, std::memory_order_relaxed); i < loop.pieces;
       i = loop.next.fetch_add(1, std::memory_order_relaxed)) {
    if (i == loop.pieces - 1) open_loops_.fetch_sub(1, std::memory_order_relaxed);
    // Pieces should not throw, but some allocate. It must neither end the process, on a helper, nor unwind the caller
    // while helpers are in the loop.
    try {
      loop.call(loop.piece, i);
    } catch (...) {
      MutexLock lock(mu_);
      if (!loop.error) loop.error = std::current_exception();
    }
  }
}

void Team::leave(Loop& loop) {
  {
    // From here on no helper enters.
    MutexLock lock(mu_);
    loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
  }
  if (poll(kMaxSpins, [&] { return loop.helpers.load(std::memory_order_acquire) == 0; }) > 0) return;
  MutexLock lock(mu_);
  while (loop.helpers.load(std::memory_order_relaxed) > 0) helpers_left_.wait(mu_);
}

void Team::start_helpers() {
  for (int i = 1; i < size_; ++i) {
    helpers_.emplace_back([this] {
      // Help is wanted at once, or not at all.
      begin_thread("tutti_team", ThreadWork::kServes);
      help();
    });
  }
}

Team::Loop* Team::enter_loop() {
  for (Loop* loop : loops_) {
    if (loop->next.load(std::memory_order_relaxed) >= loop->pieces) continue;
    loop->helpers.fetch_add(1, std::memory_order_relaxed);
    return loop;
  }
  return nullptr;
}

Team::Loop* Team::wait_for_loop(Patience& patience) {
  rest(std::exchange(patience.rest, Nanoseconds(0)), stopping_);
  patience.renew();
  const int spins = poll(patience.spins, [&] { return open_loops_.load(std::memory_order_acquire) > 0; });
  if (spins == 0) patience.crowd.falls_asleep();
  Loop* loop = nullptr;
  {
    MutexLock lock(mu_);
    loop = enter_loop();
    if (loop != nullptr || spins > 0 || stopping_) return loop;
    ++sleeping_;
    loop_added_.wait(mu_);
    --sleeping_;
    loop = enter_loop();
  }
  patience.woken(/*in_vain=*/loop == nullptr);
  return loop;
}

void Team::help() {
  const FlushDenormals flush;
  Patience patience;
  while (!stopping_.load(std::memory_order_relaxed)) {
    Loop* loop = wait_for_loop(patience);
    if (loop == nullptr) continue;
    {
      const MemoryScope memory(loop->account);
      work_on(*loop);
    }
    MutexLock lock(mu_);
    // The caller may see this and go: the loop is not touched after it.
    if (loop->helpers.fetch_sub(1, std::memory_order_release) == 1) helpers_left_.notify_all();
  }
}

}  // namespace tutti

#include "tutti/core/team.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

#include "tutti/core/flush_denormals.h"
#include "tutti/core/status.h"

namespace tutti {
namespace {

// Polls before sleeping, about 0.4 ms: longer than most gaps between the loops of a step, and than a caller waits for
// the last pieces of helpers (MLP steps on two threads are 10 % faster than with a quarter of it). On cores that others
// want, helpers poll much less.
constexpr int kMaxSpins = 8000;
constexpr int kMinSpins = 128;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How often the system has taken the core away from the calling thread.
long count_preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

// How long a helper polls: the system takes its core away when others want it.
struct Team::Patience {
  int spins = kMaxSpins;
  long preemptions = count_preemptions();

  void renew() {
    const long now = count_preemptions();
    spins = now != preemptions ? kMinSpins : std::min(kMaxSpins, 2 * spins);
    preemptions = now;
  }
};

// Lives on its caller's stack until no helper is in it.
struct Team::Loop {
  const int pieces;
  void (*const call)(const void*, int);
  const void* const piece;
  std::atomic<int> next{0};
  std::atomic<int> helpers{0};  // written under the team's lock
};

Team::Team(int size) : size_(size) { TUTTI_CHECK(size >= 1, "a team of ", size, " threads"); }

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
}

void Team::work_on(Loop& loop) {
  for (int i = loop.next.fetch_add(1, std::memory_order_relaxed); i < loop.pieces;
       i = loop.next.fetch_add(1, std::memory_order_relaxed)) {
    if (i == loop.pieces - 1) open_loops_.fetch_sub(1, std::memory_order_relaxed);
    loop.call(loop.piece, i);
  }
}

void Team::leave(Loop& loop) {
  {
    // From here on no helper enters.
    MutexLock lock(mu_);
    loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
  }
  for (int spins = kMaxSpins; spins > 0; --spins) {
    if (loop.helpers.load(std::memory_order_acquire) == 0) return;
    pause_briefly();
  }
  MutexLock lock(mu_);
  while (loop.helpers.load(std::memory_order_relaxed) > 0) helpers_left_.wait(mu_);
}

void Team::start_helpers() {
  for (int i = 1; i < size_; ++i) {
    helpers_.emplace_back([this] { help(); });
    pthread_setname_np(helpers_.back().native_handle(), "tutti_team");
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
  patience.renew();
  int spins = patience.spins;
  for (; spins > 0 && open_loops_.load(std::memory_order_acquire) == 0; --spins) pause_briefly();
  MutexLock lock(mu_);
  Loop* loop = enter_loop();
  while (loop == nullptr && spins == 0 && !stopping_) {
    ++sleeping_;
    loop_added_.wait(mu_);
    --sleeping_;
    loop = enter_loop();
  }
  return loop;
}

void Team::help() {
  const FlushDenormals flush;
  Patience patience;
  while (!stopping_.load(std::memory_order_relaxed)) {
    Loop* loop = wait_for_loop(patience);
    if (loop == nullptr) continue;
    work_on(*loop);
    MutexLock lock(mu_);
    // The caller may see this and go: the loop is not touched after it.
    if (loop->helpers.fetch_sub(1, std::memory_order_release) == 1) helpers_left_.notify_all();
  }
}

}  // namespace tutti

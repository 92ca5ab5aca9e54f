#include "tutti/distributed/rpc/internal/completion_threads.h"

#include <sched.h>

#include <thread>

#include "tutti/distributed/rpc/internal/grpc_library.h"

namespace tutti::rpc_internal {
namespace {

// How often it is looked whether the leader is still at the same work: what others wait for it at most, twice.
constexpr std::chrono::milliseconds kWatch{1};
// How long the place is given away before each work after it had to be taken, or something waited for a work.
constexpr std::chrono::milliseconds kCrowded{20};
constexpr int kCrowd = 3;
// Works that are shorter may wait for each other: a hand-over takes as long.
constexpr std::chrono::microseconds kLong{100};
// So many cores are few.
constexpr unsigned kFewCores = 4;
// How long after a piece of a large answer the next, or whoever asks for it, is looked for awake: what it takes over a
// network that is worth it.
constexpr std::chrono::milliseconds kPatience{1};
// When a core that was offered to others comes back later than this, they have work of their own, and the next look is
// after the rest.
constexpr std::chrono::microseconds kTaken{300};
constexpr std::chrono::milliseconds kRest{20};

}  // namespace

CompletionThreads::CompletionThreads(const std::string& name, int threads, grpc::CompletionQueue& queue)
    : queue_(queue),
      few_cores_(std::thread::hardware_concurrency() <= kFewCores),
      spare_(name + "-spare", threads),
      threads_(name, threads) {
  keep_grpc();
  for (int i = 0; i < threads; ++i) threads_.schedule([this] { run(); });
}

CompletionThreads::~CompletionThreads() { queue_.Shutdown(); }

std::shared_ptr<void> CompletionThreads::large_answer() {
  large_answer_moved();
  large_answers_.fetch_add(1, std::memory_order_relaxed);
  return {&large_answers_, [](std::atomic<int>* count) { count->fetch_sub(1, std::memory_order_relaxed); }};
}

void CompletionThreads::large_answer_moved() {
  const Time now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  moved_ = now;
}

void CompletionThreads::run() {
  while (const std::uint64_t place = follow()) lead(place);
}

std::uint64_t CompletionThreads::follow() {
  MutexLock lock(mu_);
  ++idle_;
  std::uint64_t seen = works_;
  while (!over_ && leader_ != 0) {
    if (watched_) {
      changed_.wait(mu_);
      continue;
    }
    watched_ = true;
    // Without traffic nobody watches: whoever begins to work wakes the next.
    do {
      seen = works_;
      (void)changed_.wait_until(mu_, std::chrono::steady_clock::now() + kWatch);
    } while (!over_ && leader_ != 0 && !take_from_busy(seen) && works_ != seen);
    watched_ = false;
    if (!over_ && leader_ != 0) changed_.wait(mu_);
  }
  --idle_;
  if (over_) return 0;
  leader_works_ = false;
  return leader_ = ++places_;
}

// The place is free then.
bool CompletionThreads::take_from_busy(std::uint64_t seen) {
  if (!leader_works_ || works_ != seen) return false;
  leader_ = 0;
  crowded_until_ = std::chrono::steady_clock::now() + kCrowded;
  return true;
}

void CompletionThreads::lead(std::uint64_t place) {
  void* found = nullptr;
  bool ok = false;
  bool waited = true;  // for what was found; else it had to wait for the work before
  while (next(found, ok, waited)) {
    auto* tag = static_cast<CompletionTag*>(found);
    tag->returned();
    if (!tag->arrived(ok)) continue;
    const bool keeps = few_cores_ && tag->brief();
    if (!begin_work(place, !waited, keeps)) {
      spare_.schedule([tag] { tag->work(); });
      continue;
    }
    const Time begin = std::chrono::steady_clock::now();
    tag->work();
    waited = keeps || std::chrono::steady_clock::now() - begin < kLong;
    if (!end_work(place)) return;
  }
  MutexLock lock(mu_);
  over_ = true;
  changed_.notify_all();
}

bool CompletionThreads::next(void*& found, bool& ok, bool& waited) {
  using Queue = grpc::CompletionQueue;
  if (!waited) {
    if (queue_.AsyncNext(&found, &ok, std::chrono::system_clock::time_point()) == Queue::GOT_EVENT) return true;
    waited = true;
  }
  if (large_answers_.load(std::memory_order_relaxed) > 0 && look(found, ok)) return true;
  return queue_.Next(&found, &ok);
}

bool CompletionThreads::look(void*& found, bool& ok) {
  Time now = std::chrono::steady_clock::now();
  Time end;
  {
    MutexLock lock(mu_);
    if (now < rest_until_) return false;
    end = moved_ + kPatience;
  }
  while (now < end && large_answers_.load(std::memory_order_relaxed) > 0) {
    // It reads from the connections, too.
    if (queue_.AsyncNext(&found, &ok, std::chrono::system_clock::time_point()) == grpc::CompletionQueue::GOT_EVENT) {
      return true;
    }
    const Time offered = std::chrono::steady_clock::now();
    sched_yield();
    now = std::chrono::steady_clock::now();
    if (now - offered > kTaken) {
      MutexLock lock(mu_);
      rest_until_ = now + kRest;
      return false;
    }
  }
  return false;
}

bool CompletionThreads::begin_work(std::uint64_t place, bool late, bool keeps) {
  MutexLock lock(mu_);
  // A busy machine makes one late now and then; a second caller makes each.
  lates_ = late ? lates_ + 1 : 0;
  if (lates_ >= kCrowd) crowded_until_ = std::chrono::steady_clock::now() + kCrowded;
  if (idle_ == 0) return false;
  ++works_;
  ++working_;
  leader_works_ = true;
  if (!keeps && (working_ > 1 || std::chrono::steady_clock::now() < crowded_until_)) {
    if (leader_ == place) leader_ = 0;
    changed_.notify_one();
  } else if (!watched_) {
    changed_.notify_one();
  }
  return true;
}

bool CompletionThreads::end_work(std::uint64_t place) {
  MutexLock lock(mu_);
  --working_;
  if (leader_ == 0) leader_ = place;
  if (leader_ != place) return false;
  leader_works_ = false;
  return true;
}

}  // namespace tutti::rpc_internal

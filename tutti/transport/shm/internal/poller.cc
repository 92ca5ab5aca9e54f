#include "tutti/transport/shm/internal/poller.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

namespace tutti::shm {
namespace {

using std::chrono::microseconds;

// More than two wake-ups would not be worth the core.
constexpr microseconds kMostPatience{50};
constexpr microseconds kLeastPatience{10};
constexpr microseconds kLonger{1};
// Inputs with less between them make it likely that the next comes as soon.
constexpr microseconds kClose{200};
// Over whom nothing came for so long is not looked at.
constexpr microseconds kRecent{1000};
constexpr std::size_t kMostRecent = 8;
constexpr int kLooksBeforeYield = 64;
// The core is offered to others, of whom a peer that answers takes less than this. Who takes more has its own business,
// and would have it again: then all sleep, for a while that doubles each time.
constexpr microseconds kTaken{300};
constexpr std::chrono::milliseconds kFirstRest{10};
constexpr std::chrono::milliseconds kMostRest{640};
// After n misses in a row 2^n occasions are let pass, at most so many.
constexpr std::uint32_t kMostMisses = 6;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Poller::Poller(bool enabled)
    : enabled_(enabled && std::thread::hardware_concurrency() > 1), usual_(kMostPatience / 2), rest_(kFirstRest) {}

void Poller::came_in(const std::weak_ptr<Polled>& who) {
  if (!enabled_) return;
  const Time now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  close_ = now - last_input_ < kClose;
  last_input_ = now;
  const auto same = [&who](const Recent& one) { return !one.who.owner_before(who) && !who.owner_before(one.who); };
  auto found = std::find_if(recent_.begin(), recent_.end(), same);
  if (found == recent_.end()) {
    if (recent_.size() == kMostRecent) recent_.pop_back();
    found = recent_.insert(recent_.end(), {who, now});
  }
  found->when = now;
  std::rotate(recent_.begin(), found, found + 1);
}

std::chrono::nanoseconds Poller::patience() {
  constexpr std::chrono::nanoseconds kNone{0};
  if (!enabled_) return kNone;
  MutexLock lock(mu_);
  if (!close_) return kNone;
  if (misses_ > 1 && ++skipped_ < (1u << misses_)) return kNone;
  skipped_ = 0;
  close_ = false;  // the next input tells again
  return std::clamp<std::chrono::nanoseconds>(2 * usual_, kLeastPatience, kMostPatience);
}

std::vector<std::shared_ptr<Polled>> Poller::recent(Time now) {
  std::vector<std::shared_ptr<Polled>> found;
  MutexLock lock(mu_);
  if (now < rest_until_) return found;
  std::erase_if(recent_, [now](const Recent& one) { return now - one.when > kRecent; });
  for (const Recent& one : recent_) {
    if (auto who = one.who.lock()) found.push_back(std::move(who));
  }
  return found;
}

void Poller::note(Outcome outcome, Time now, std::chrono::nanoseconds took) {
  MutexLock lock(mu_);
  if (outcome == Outcome::kTaken) {
    rest_until_ = now + rest_;
    rest_ = std::min<std::chrono::nanoseconds>(2 * rest_, kMostRest);
  } else if (outcome == Outcome::kFound) {
    misses_ = 0;
    rest_ = kFirstRest;
    usual_ += (std::min<std::chrono::nanoseconds>(took, kMostPatience) - usual_) / 8;
  } else {
    misses_ = std::min(misses_ + 1, kMostMisses);
    // It may have come a little later.
    usual_ = std::min<std::chrono::nanoseconds>(usual_ + kLonger, kMostPatience);
  }
}

std::vector<std::shared_ptr<Polled>> Poller::poll(std::chrono::nanoseconds patience,
                                                  const std::function<bool()>& enough) {
  if (!enabled_ || polling_.exchange(true, std::memory_order_acquire)) return {};
  const Time begin = std::chrono::steady_clock::now();
  const Time end = begin + patience;
  Time last = begin;
  std::vector<std::shared_ptr<Polled>> watched = recent(last);
  const auto has_input = [](const std::shared_ptr<Polled>& one) { return one->has_input(); };
  for (const auto& one : watched) one->begin_polling();
  bool over = watched.empty();
  std::optional<Outcome> outcome;
  while (!over) {
    for (int i = 0; i < kLooksBeforeYield && !over; ++i) {
      over = std::any_of(watched.begin(), watched.end(), has_input) || enough();
      relax();
    }
    if (over) break;
    sched_yield();
    const Time now = std::chrono::steady_clock::now();
    if (now - last > kTaken) outcome = Outcome::kTaken;
    if (!outcome && now >= end) outcome = Outcome::kMissed;
    over = outcome.has_value();
    last = now;
  }
  // Those with input are taken in, after which they want to be rung for; the others want it from now on.
  std::erase_if(watched, [](const auto& one) { return !one->has_input() && !one->end_polling(); });
  polling_.store(false, std::memory_order_release);
  if (!watched.empty() && outcome != Outcome::kTaken) outcome = Outcome::kFound;
  if (outcome) note(*outcome, last, last - begin);
  return watched;
}

}  // namespace tutti::shm

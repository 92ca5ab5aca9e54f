#include "tutti/transport/shm/internal/event_loop.h"

#include <sys/epoll.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tutti/core/thread_setup.h"
#include "tutti/transport/shm/internal/doorbell.h"

namespace tutti::shm {
namespace {

constexpr std::uint64_t kWakeToken = 0;
// How often input is found by looking before sockets get their turn.
constexpr std::uint32_t kPollsBeforeSockets = 16;

// Whose thread this is.
thread_local const EventLoop* current_loop = nullptr;
// In whose dispatch() this thread is.
thread_local const EventLoop* dispatching_loop = nullptr;
// What this thread, being somebody else's, waits for in help().
thread_local const void* helping_waiter = nullptr;

}  // namespace

Result<std::shared_ptr<EventLoop>> EventLoop::create(const Options& options) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return resource_exhausted(errno_text("epoll_create1"));
  TUTTI_ASSIGN_OR_RETURN(UniqueFd wake, make_doorbell());
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = kWakeToken}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) return internal_error(errno_text("epoll_ctl"));
  std::shared_ptr<EventLoop> loop(new EventLoop(options, std::move(epoll), std::move(wake)));
  TUTTI_RETURN_IF_ERROR(loop->start());
  return loop;
}

EventLoop::EventLoop(const Options& options, UniqueFd epoll, UniqueFd wake)
    : num_threads_(options.threads),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      polls_(options.polls),
      poller_(true) {}

EventLoop::~EventLoop() { stop(); }

Status EventLoop::start() {
  MutexLock lock(mu_);
  try {
    for (int i = 0; i < num_threads_; ++i) threads_.emplace_back([this] { listen(); });
  } catch (const std::system_error& error) {
    return resource_exhausted("a thread: ", error.what());
  }
  return {};
}

void EventLoop::call_spare() {
  if (spares_idle_ > 0) {
    spare_wanted_.notify_one();
  } else if (threads_.size() < 2 * static_cast<std::size_t>(num_threads_)) {
    try {
      threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      // The system has no more: the work waits for a thread that is there.
    }
  }
}

Status EventLoop::watch(int fd, std::shared_ptr<Watched> watched) {
  MutexLock lock(watched_mu_);
  if (!watches_) return cancelled("the transport was stopped");
  const std::uint64_t token = next_token_++;
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.u64 = token}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return internal_error(errno_text("epoll_ctl"));
  watched_.emplace(token, Entry{fd, std::move(watched)});
  tokens_[fd] = token;
  return {};
}

void EventLoop::forget(int fd) {
  std::shared_ptr<Watched> last;  // may destroy it: not under the lock
  MutexLock lock(watched_mu_);
  const auto token = tokens_.find(fd);
  if (token == tokens_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const auto entry = watched_.find(token->second);
  last = std::move(entry->second.watched);
  watched_.erase(entry);
  tokens_.erase(token);
}

void EventLoop::wake_another() {
  if (asleep_ == 0 || woken_) return;
  woken_ = true;
  ring_doorbell(wake_.get());
}

void EventLoop::post(std::function<void()> work) {
  {
    MutexLock lock(mu_);
    if (!stopped_) {
      work_.push_back(std::move(work));
      posted_.store(work_.size(), std::memory_order_relaxed);
      // Who dispatches looks at the queue when it is done, and wakes others when there is more than it takes.
      if (dispatching_loop != this) wake_another();
      if (busy_ + 1 >= num_threads_ && spares_idle_ > 0) spare_wanted_.notify_one();
      return;
    }
  }
  work();
}

bool EventLoop::run_one() {
  std::function<void()> work;
  {
    MutexLock lock(mu_);
    if (work_.empty() || stopping_) return false;
    if (busy_ + 1 >= num_threads_) {
      call_spare();
      return false;
    }
    ++busy_;
    work = std::move(work_.front());
    work_.pop_front();
    posted_.store(work_.size(), std::memory_order_relaxed);
    if (!work_.empty()) wake_another();
  }
  work();
  work = nullptr;
  MutexLock lock(mu_);
  --busy_;
  return true;
}

void EventLoop::listen() {
  begin_thread("tutti_shm", ThreadWork::kComputes);
  current_loop = this;
  std::uint32_t polls = 0;
  while (true) {
    while (run_one()) {
    }
    const bool polled = poll();
    if (polled && ++polls % kPollsBeforeSockets != 0) continue;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      if (!work_.empty()) {
        // It came while this thread was polling, when nobody was asleep to be woken for it.
        if (busy_ + 1 < num_threads_) continue;
        call_spare();
      }
      ++asleep_;
    }
    epoll_event event{};
    const int ready = ::epoll_wait(epoll_.get(), &event, 1, polled ? 0 : -1);
    const bool wake = ready == 1 && event.data.u64 == kWakeToken;
    {
      MutexLock lock(mu_);
      --asleep_;
      if (wake) woken_ = false;
      // Each passes the end on to the next.
      if (stopping_) {
        ring_doorbell(wake_.get());
        return;
      }
    }
    if (ready == 1 && !wake) dispatch(event.data.u64);
  }
}

bool EventLoop::poll() {
  if (!polls_) return false;
  const std::chrono::nanoseconds patience = poller_.patience();
  if (patience.count() == 0) return false;
  const auto input = poller_.poll(patience, [this] { return posted_.load(std::memory_order_relaxed) != 0; });
  dispatching_loop = this;
  for (const auto& one : input) one->take_input();
  dispatching_loop = nullptr;
  return !input.empty();
}

void EventLoop::help(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto over = [&done] { return done.load(std::memory_order_acquire); };
  helping_waiter = waiter;
  while (!over()) {
    const auto left = end - std::chrono::steady_clock::now();
    const auto input = poller_.poll(left, over);
    if (input.empty()) break;
    for (const auto& one : input) one->take_input();
  }
  helping_waiter = nullptr;
}

bool EventLoop::waits_here(const void* waiter) { return waiter != nullptr && helping_waiter == waiter; }

void EventLoop::dispatch(std::uint64_t token) {
  std::shared_ptr<Watched> watched;
  int fd = -1;
  {
    MutexLock lock(watched_mu_);
    const auto entry = watched_.find(token);
    if (entry == watched_.end()) return;
    watched = entry->second.watched;
    fd = entry->second.fd;
  }
  dispatching_loop = this;
  watched->ready(fd);
  dispatching_loop = nullptr;
}

void EventLoop::help() {
  begin_thread("tutti_shm_spare", ThreadWork::kComputes);
  current_loop = this;
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      ++spares_idle_;
      while (work_.empty() && !stopping_) spare_wanted_.wait(mu_);
      --spares_idle_;
      if (stopping_) return;
      work = std::move(work_.front());
      work_.pop_front();
      posted_.store(work_.size(), std::memory_order_relaxed);
    }
    work();
  }
}

void EventLoop::stop() {
  TUTTI_CHECK(current_loop != this, "an event loop stopped by its own work");
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    threads.swap(threads_);
    ring_doorbell(wake_.get());
  }
  spare_wanted_.notify_all();
  for (std::thread& thread : threads) thread.join();
  std::deque<std::function<void()>> rest;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    rest.swap(work_);
  }
  for (const auto& work : rest) work();
  std::unordered_map<std::uint64_t, Entry> watched;  // destroyed without the lock
  MutexLock lock(watched_mu_);
  watches_ = false;
  watched.swap(watched_);
  tokens_.clear();
}

}  // namespace tutti::shm

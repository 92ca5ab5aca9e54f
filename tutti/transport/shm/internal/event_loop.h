// The threads of a transport: they wait for descriptors and run what arrives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/files.h"
#include "tutti/transport/shm/internal/poller.h"

namespace tutti::shm {

// Something with descriptors.
class Watched {
 public:
  virtual ~Watched() = default;
  // `fd` is ready. Short: it takes messages in and posts what they ask for. Runs on several threads at once.
  virtual void ready(int fd) = 0;
};

// `threads` wait for descriptors. Posted work is run by the thread that posted it from ready(), or by another that is
// free; the last free one never runs work, since somebody has to listen: it leaves it to a spare thread, of which there
// are as many again, started when first needed. Before a thread sleeps it may look for input awake (poller.h).
// Thread-safe.
class EventLoop {
 public:
  struct Options {
    int threads = 2;
    bool polls = true;  // false: threads of the loop sleep at once; help() looks for input nevertheless
  };
  static Result<std::shared_ptr<EventLoop>> create(const Options& options);
  ~EventLoop();

  // Edge-triggered: ready() runs when `fd` has become readable or was hung up, and must then take all there is.
  // kCancelled after stop().
  Status watch(int fd, std::shared_ptr<Watched> watched);
  // ready() may still run, for the last time, on another thread.
  void forget(int fd);
  // Runs it soon, on a thread of the loop; after stop(), at once.
  void post(std::function<void()> work);
  // Something came in over `who`.
  void came_in(const std::weak_ptr<Polled>& who) { poller_.came_in(who); }
  // The calling thread, not one of the loop's, waits for `done` to become true: for at most `patience` it takes in what
  // comes itself. What ends the wait called `waiter` runs on it (see waits_here), all else on the loop's threads.
  void help(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience);
  // Whether the calling thread helps, and waits for this.
  static bool waits_here(const void* waiter);
  // Joins the threads, then runs what was posted. Not from a thread of the loop. Idempotent.
  void stop();

 private:
  EventLoop(const Options& options, UniqueFd epoll, UniqueFd wake);
  Status start();
  void listen();
  void help();
  void dispatch(std::uint64_t token);
  // Whether it ran something.
  bool run_one();
  // Whether something came in while it looked.
  bool poll();
  void call_spare() TUTTI_REQUIRES(mu_);
  void wake_another() TUTTI_REQUIRES(mu_);

  const int num_threads_;
  const UniqueFd epoll_;
  const UniqueFd wake_;
  const bool polls_;
  Poller poller_;
  // As many as work_ has: only tells a thread that looks for input that there is other work.
  std::atomic<std::size_t> posted_{0};

  Mutex mu_;
  CondVar spare_wanted_;
  std::deque<std::function<void()>> work_ TUTTI_GUARDED_BY(mu_);
  int busy_ TUTTI_GUARDED_BY(mu_) = 0;        // listeners that run work
  int asleep_ TUTTI_GUARDED_BY(mu_) = 0;      // listeners in epoll_wait
  bool woken_ TUTTI_GUARDED_BY(mu_) = false;  // one is on its way
  int spares_idle_ TUTTI_GUARDED_BY(mu_) = 0;
  bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
  bool stopped_ TUTTI_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ TUTTI_GUARDED_BY(mu_);

  Mutex watched_mu_;
  bool watches_ TUTTI_GUARDED_BY(watched_mu_) = true;
  std::uint64_t next_token_ TUTTI_GUARDED_BY(watched_mu_) = 1;
  struct Entry {
    int fd;
    std::shared_ptr<Watched> watched;
  };
  std::unordered_map<std::uint64_t, Entry> watched_ TUTTI_GUARDED_BY(watched_mu_);
  std::unordered_map<int, std::uint64_t> tokens_ TUTTI_GUARDED_BY(watched_mu_);
};

}  // namespace tutti::shm

// Telling work that nobody wants its result any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tutti {

// One per step, call or session. Cancelled at most once; the first cause is kept. Thread-safe.
//
// Long computations poll `cancelled()`. What waits registers a callback:
//   token = c.register_callback(fn)   false: already cancelled, fn will not run
//   c.deregister(token)               true: fn did not and will not run;
//                                     false: it ran, or runs now and has returned when this returns
//                                     (unless called from fn itself)
class Cancellation {
 public:
  using Token = std::uint64_t;

  Cancellation() = default;
  // Cancelled when `parent` is, with its cause. `parent` must outlive this.
  explicit Cancellation(Cancellation& parent);
  // Waits for a callback that still runs on another thread.
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // REQUIRES: !cause.ok(). Runs the callbacks on the calling thread, no lock held.
  void cancel(Status cause);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // OK until cancelled, then the cause.
  Status status() const;

  // 0 is never a valid token.
  Token register_callback(std::function<void()> callback);
  bool deregister(Token token);

 private:
  // Published after cause_ is set: who sees true may read the cause (release/acquire).
  std::atomic<bool> cancelled_{false};
  mutable Mutex mu_;
  CondVar callback_done_;
  Status cause_ TUTTI_GUARDED_BY(mu_);
  Token running_ TUTTI_GUARDED_BY(mu_) = 0;               // the callback that runs now, or 0
  std::thread::id running_thread_ TUTTI_GUARDED_BY(mu_);  // on which
  Token next_token_ TUTTI_GUARDED_BY(mu_) = 1;
  std::map<Token, std::function<void()>> callbacks_ TUTTI_GUARDED_BY(mu_);
  Cancellation* const parent_ = nullptr;
  Token parent_token_ = 0;
};

}  // namespace tutti

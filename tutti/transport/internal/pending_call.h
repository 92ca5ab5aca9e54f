// A call as its caller's side keeps it until it ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/transport/channel.h"

namespace tutti {

// Ends once, by whichever comes first: the reply, the deadline, the caller's cancellation, the loss of the peer. Then
// the timer and the cancellation's callback are gone before `done` runs. Thread-safe; held by shared_ptr.
class PendingCall : public std::enable_shared_from_this<PendingCall> {
 public:
  using EarlyEnd = std::function<void(const Status& cause)>;
  using Runner = std::function<void(std::function<void()>)>;

  // `channel` and `method` say what is called, for messages. `early` tells the peer; it runs before `done`, and only
  // when the call ended by end_early, a deadline or a cancellation. `runner`, when given, runs what follows a deadline,
  // so that it does not hold up the clock.
  PendingCall(Clock& clock, std::shared_ptr<const std::string> channel, std::string_view method, Channel::Done done,
              EarlyEnd early, Runner runner = nullptr);

  // Sets the deadline and the cancellation; the call may end in here. Until this has returned no end runs `done` on
  // another thread. Once, before the request is sent.
  void arm(const CallOptions& options);
  // False: it had ended before, and this has no effect.
  bool finish(Status status, Payload reply);
  bool end_early(const Status& cause);
  // As the options had it.
  const void* waiter() const { return waiter_.load(std::memory_order_relaxed); }
  bool ended() const { return claimed_.load(std::memory_order_acquire); }

 private:
  void set_timer(TimePoint deadline);
  void complete_when_armed(Status status, Payload reply);
  void complete();

  Clock& clock_;
  const std::shared_ptr<const std::string> channel_;
  const std::string method_;
  const EarlyEnd early_;
  const Runner runner_;

  std::atomic<const void*> waiter_{nullptr};  // set by arm(); a hostile peer answers before it was asked

  // Who turns it to true ends the call.
  std::atomic<bool> claimed_{false};

  Mutex mu_;
  bool armed_ TUTTI_GUARDED_BY(mu_) = false;
  bool has_result_ TUTTI_GUARDED_BY(mu_) = false;

  // Written before has_result_ and armed_, read after both.
  Channel::Done done_;
  Status status_;
  Payload reply_;
  Cancellation* cancellation_ = nullptr;
  Cancellation::Token token_ = 0;
  Clock::TimerId timer_ = 0;
  bool has_timer_ = false;
};

}  // namespace tutti

// Calls that are repeated when their peer could not be reached.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/call_watch.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::internal {

// As TensorFlow's client does: the same request (its request id included) again after kUnavailable, a little later each
// time. Ten repetitions take about a second.
inline constexpr int kMaxRetries = 10;
inline constexpr std::chrono::milliseconds kFirstRetryAfter(1);

// One call with its repetitions. A repetition that is told that the request had come through before gives the first
// error: its outcome is unknown, and why is in there. Thread-safe.
template <typename Reply>
class RetryingCall : public std::enable_shared_from_this<RetryingCall<Reply>> {
 public:
  using Call = std::function<void(const CallOptions&, ReplyDone<Reply>)>;

  // What `options` names outlives the call.
  RetryingCall(Clock& clock, const CallOptions& options, Call call, ReplyDone<Reply> done)
      : clock_(clock), options_(options), call_(std::move(call)), done_(std::move(done)) {}

  void start() {
    call_(options_, [self = this->shared_from_this()](Result<Reply> reply) { self->answer(std::move(reply)); });
  }

 private:
  void answer(Result<Reply> reply) {
    if (!first_.ok() && is_repetition(outcome(reply))) return done_(first_);
    // Not what the body says: such a step has come through.
    if (reply.status().code() != Code::kUnavailable || retries_ == kMaxRetries) return done_(std::move(reply));
    first_.update(reply.status());
    wait();
  }

  // Errors of steps may come in the body of a reply.
  static Status outcome(const Result<Reply>& reply) {
    if constexpr (requires { reply->status; }) {
      if (reply.ok()) return reply->status;
    }
    return reply.status();
  }

  static bool is_repetition(const Status& status) {
    return status.code() == Code::kAborted && status.message().find("request was received twice") != std::string::npos;
  }

  void wait() {
    auto self = this->shared_from_this();
    const Duration pause = kFirstRetryAfter * (1 << retries_++);
    watch_ = std::make_unique<CallWatch>(clock_, options_.cancellation, options_.deadline);
    {
      MutexLock lock(mu_);
      waiting_ = true;
    }
    timer_ = clock_.call_at(clock_.now() + pause, [self] { self->end_wait({}); });
    watch_->start([self](Status cause) { self->end_wait(std::move(cause)); }, [self] { self->end_wait(self->first_); });
    bool over = false;
    {
      MutexLock lock(mu_);
      started_ = true;
      over = !waiting_;
    }
    if (over) go_on();
  }

  // The first who comes decides how it goes on; that begins when wait() has set everything up.
  void end_wait(Status cause) {
    {
      MutexLock lock(mu_);
      if (!waiting_) return;
      waiting_ = false;
      cause_ = std::move(cause);
      if (!started_) return;
    }
    go_on();
  }

  void go_on() {
    watch_->stop();
    clock_.cancel_timer(timer_);
    Status cause;
    {
      MutexLock lock(mu_);
      started_ = false;
      cause = std::exchange(cause_, {});
    }
    if (!cause.ok()) return done_(std::move(cause));
    start();
  }

  Clock& clock_;
  const CallOptions options_;
  const Call call_;
  const ReplyDone<Reply> done_;
  // Of the one thread that has the call's last answer, or waits.
  int retries_ = 0;
  Status first_;
  std::unique_ptr<CallWatch> watch_;
  Clock::TimerId timer_ = 0;

  Mutex mu_;
  bool waiting_ TUTTI_GUARDED_BY(mu_) = false;
  bool started_ TUTTI_GUARDED_BY(mu_) = false;
  Status cause_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

#include "tutti/transport/internal/pending_call.h"

#include <utility>

namespace tutti {

PendingCall::PendingCall(Clock& clock, std::shared_ptr<const std::string> channel, std::string_view method,
                         Channel::Done done, EarlyEnd early, Runner runner)
    : clock_(clock),
      channel_(std::move(channel)),
      method_(method),
      early_(std::move(early)),
      runner_(std::move(runner)),
      done_(std::move(done)) {}

void PendingCall::arm(const CallOptions& options) {
  waiter_.store(options.waiter, std::memory_order_relaxed);
  if (options.cancellation != nullptr) {
    cancellation_ = options.cancellation;
    token_ = cancellation_->register_callback([weak = weak_from_this(), cancellation = cancellation_] {
      if (const auto call = weak.lock()) call->end_early(cancellation->status());
    });
    if (token_ == 0) end_early(cancellation_->status());
  }
  if (options.deadline && *options.deadline != TimePoint::max() && !ended()) set_timer(*options.deadline);
  {
    MutexLock lock(mu_);
    armed_ = true;
    if (!has_result_) return;
  }
  complete();
}

void PendingCall::set_timer(TimePoint deadline) {
  if (clock_.now() >= deadline) {
    end_early(deadline_exceeded(*channel_, " ", method_, ": the deadline had passed before the call"));
    return;
  }
  has_timer_ = true;
  timer_ = clock_.call_at(deadline, [weak = weak_from_this()] {
    const auto call = weak.lock();
    if (!call) return;
    auto end = [call] {
      call->end_early(deadline_exceeded(*call->channel_, " ", call->method_, ": no answer by the deadline"));
    };
    call->runner_ ? call->runner_(std::move(end)) : end();
  });
}

bool PendingCall::finish(Status status, Payload reply) {
  if (claimed_.exchange(true, std::memory_order_acq_rel)) return false;
  complete_when_armed(std::move(status), std::move(reply));
  return true;
}

bool PendingCall::end_early(const Status& cause) {
  if (claimed_.exchange(true, std::memory_order_acq_rel)) return false;
  if (early_) early_(cause);
  complete_when_armed(cause, {});
  return true;
}

void PendingCall::complete_when_armed(Status status, Payload reply) {
  status_ = std::move(status);
  reply_ = std::move(reply);
  {
    MutexLock lock(mu_);
    has_result_ = true;
    if (!armed_) return;  // arm() goes on from here
  }
  complete();
}

void PendingCall::complete() {
  // Both wait for a callback that runs on another thread; such a one finds the call claimed and returns.
  if (token_ != 0) cancellation_->deregister(token_);
  if (has_timer_) clock_.cancel_timer(timer_);
  const Channel::Done done = std::exchange(done_, nullptr);
  done(std::move(status_), std::move(reply_));
}

}  // namespace tutti

#include "tutti/core/cancel_when.h"

namespace tutti {

void CancelWhen::cancelled(Cancellation& other) {
  const Cancellation::Token token =
      other.register_callback([target = target_, &other] { target->cancel(other.status()); });
  if (token == 0) return target_->cancel(other.status());
  others_.emplace_back(&other, token);
}

void CancelWhen::reached(Clock& clock, TimePoint when, Status cause) {
  const Clock::TimerId id =
      clock.call_at(when, [target = target_, cause = std::move(cause)] { target->cancel(cause); });
  timers_.emplace_back(&clock, id);
}

void CancelWhen::stop() {
  for (const auto& [clock, id] : timers_) clock->cancel_timer(id);
  for (const auto& [other, token] : others_) other->deregister(token);
  timers_.clear();
  others_.clear();
}

}  // namespace tutti

#include "tutti/train/hooks/second_or_step_timer.h"

#include "tutti/core/status.h"
#include "tutti/train/seconds.h"

namespace tutti {

SecondOrStepTimer::SecondOrStepTimer(std::optional<double> every_secs, std::optional<std::int64_t> every_steps)
    : every_steps_(every_steps) {
  if (!every_secs && !every_steps)
    throw_error(invalid_argument("Either every_secs or every_steps should be provided."));
  if (every_secs && every_steps) {
    throw_error(
        invalid_argument("Can not provide both every_secs (", *every_secs, ") and every_steps (", *every_steps, ")."));
  }
  if (every_secs && !(*every_secs > 0)) throw_error(invalid_argument("invalid every_secs=", *every_secs, "."));
  if (every_steps && *every_steps <= 0) throw_error(invalid_argument("invalid every_steps=", *every_steps, "."));
  if (every_secs) every_ = seconds(*every_secs);
}

bool SecondOrStepTimer::should_trigger_for_step(std::int64_t step, TimePoint now) const {
  if (!last_) return true;
  if (last_->step == step) return false;
  if (every_) return now - last_->time >= *every_;
  return step - last_->step >= *every_steps_;
}

std::optional<SecondOrStepTimer::Elapsed> SecondOrStepTimer::update_last_triggered_step(std::int64_t step,
                                                                                        TimePoint now) {
  std::optional<Elapsed> elapsed;
  if (last_) elapsed = Elapsed{to_seconds(now - last_->time), step - last_->step};
  last_ = Last{step, now};
  return elapsed;
}

std::optional<std::int64_t> SecondOrStepTimer::last_triggered_step() const {
  return last_ ? std::optional(last_->step) : std::nullopt;
}

}  // namespace tutti

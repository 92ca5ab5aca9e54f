#include "tutti/train/internal/live_session.h"

namespace tutti::internal {

LiveSession::LiveSession(std::unique_ptr<Session> session, Clock& clock, Cancellation* cancellation)
    : session_(std::move(session)), coordinator_(clock, {}), on_cancel_(cancellation, [this, cancellation] {
        try {
          coordinator_.request_stop(cancellation->status());
        } catch (const Error&) {
          // Joined already: there is nobody to stop.
        }
      }) {}

Status LiveSession::join(Duration grace, std::vector<std::string>* stragglers) {
  Status error;
  try {
    coordinator_.join({.stop_grace_period = grace, .ignore_live_threads = true});
  } catch (const Error& thrown) {
    error = thrown.status();
  }
  *stragglers = coordinator_.running();
  return error;
}

Status LiveSession::stop(Duration grace, std::vector<std::string>* stragglers) {
  coordinator_.request_stop();
  Status error = join(grace, stragglers);
  // A task that is gone cannot be told, and need not be.
  static_cast<void>(session_->close());
  return error;
}

void LiveSession::abandon(Duration grace, std::vector<std::string>* stragglers) {
  coordinator_.request_stop();
  static_cast<void>(session_->close());
  static_cast<void>(join(grace, stragglers));
}

}  // namespace tutti::internal

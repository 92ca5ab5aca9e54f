// A session with the threads that belong to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/status.h"
#include "tutti/runtime/session.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/internal/on_cancel.h"

namespace tutti::internal {

class LiveSession {
 public:
  // `cancellation` (may be null) stops the threads.
  LiveSession(std::unique_ptr<Session> session, Clock& clock, Cancellation* cancellation);
  // Ends what runs and waits for the threads.
  ~LiveSession() {
    coordinator_.request_stop();
    static_cast<void>(session_->close());
  }

  Session& session() { return *session_; }
  Coordinator& coordinator() { return coordinator_; }

  // Lets threads end by themselves for `grace`, then closes the session. What a thread failed with; threads that are
  // still there are put into `stragglers`.
  Status stop(Duration grace, std::vector<std::string>* stragglers);
  // For a session that is of no use any more: closed at once, so that nobody waits in a step of it.
  void abandon(Duration grace, std::vector<std::string>* stragglers);

 private:
  Status join(Duration grace, std::vector<std::string>* stragglers);

  const std::unique_ptr<Session> session_;
  Coordinator coordinator_;  // its threads end before the session
  const OnCancel on_cancel_;
};

}  // namespace tutti::internal

// One who waits in a resource for an answer.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/status.h"

namespace tutti {

// Registered with its cancellation before anyone can answer it. Guarded by the resource's mutex until it is finished,
// then owned by the thread that finished it, which calls answer_all after it has let go of the mutex.
template <typename Answer>
struct Waiter {
  enum class Phase { kNew, kWaiting, kFinished, kCancelled };

  Phase phase = Phase::kNew;
  Cancellation* cancellation = nullptr;
  Cancellation::Token token = 0;
  Status status;
  Answer answer{};
  std::function<void(Status, Answer)> done;

  // Whether the cancellation came before the waiter could be put where others find it. Call it once, with the mutex.
  bool came_too_late(Cancellation::Token registered) {
    token = registered;
    return registered == 0 || phase == Phase::kCancelled;
  }
  // What a cancellation's callback does first, with the mutex: true when the waiter is among those that wait.
  bool cancel() {
    if (phase == Phase::kNew) phase = Phase::kCancelled;
    return phase == Phase::kWaiting;
  }
  void finish(Status with) {
    phase = Phase::kFinished;
    status = std::move(with);
  }
};

template <typename W>
void answer_all(const std::vector<std::shared_ptr<W>>& finished) {
  for (const std::shared_ptr<W>& waiter : finished) {
    // Afterwards the callback neither runs nor will run, and the cancellation may go.
    if (waiter->token != 0) waiter->cancellation->deregister(waiter->token);
    waiter->done(std::move(waiter->status), std::move(waiter->answer));
  }
}

}  // namespace tutti

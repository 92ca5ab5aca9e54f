// Values that a step receives from one task, asked for together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/received_values.h"
#include "tutti/distributed/internal/request_ids.h"
#include "tutti/distributed/worker_interface.h"
#include "tutti/kernels/services.h"

namespace tutti::internal {

// Asks when it starts, and again for what is missing when some have come, until all have. Values are kept until the
// step takes them. The first error ends it, for all that were not taken; a worker that does not know how to give
// several is asked for each by itself. Thread-safe; held by shared_ptr.
class BatchedReceive : public std::enable_shared_from_this<BatchedReceive> {
 public:
  using Done = Rendezvous::Done;

  struct Options {
    std::int64_t step_id = 0;
    std::shared_ptr<WorkerInterface> worker;
    std::shared_ptr<ReceivedValues::Source> source;
    RequestIds* request_ids = nullptr;  // outlives it
    std::size_t limit_bytes = 0;        // of what was received and not taken
    // Calls what it is given, which ends waits of the step.
    std::function<void(const std::function<void()>&)> resume;
    // Asks for one by itself.
    std::function<void(const std::string& key, Cancellation& cancellation, Done done)> ask_alone;
  };
  explicit BatchedReceive(Options options);

  const ReceivedValues::Source& source() const { return *options_.source; }
  // Once.
  void start() { ask(0); }
  // As Rendezvous::recv. False, and `done` is left alone: to be asked for by itself.
  bool recv(std::size_t index, Cancellation& cancellation, Done& done);
  // Ends the call.
  void cancel(Status cause) { cancellation_.cancel(std::move(cause)); }
  // Whether something is still to come.
  bool waits() const;

 private:
  enum class State { kMissing, kAwaited, kArrived, kTaken };
  struct Slot {
    State state = State::kMissing;
    Tensor value;  // of one that has arrived; none: dead
    std::size_t bytes = 0;
    // Of one that is awaited.
    Cancellation* asker = nullptr;
    Cancellation::Token token = 0;
    Done done;
  };
  struct Waiting {
    std::size_t index = 0;
    Slot slot;  // with the value, if it has one
  };

  void ask(std::int64_t continues);
  void answered(std::int64_t first, Result<RecvTensorsReply> reply);
  Status take_in(std::vector<ReceivedTensor>& values, std::vector<Waiting>& waiting, std::size_t& missing);
  Waiting take_slot(std::size_t index) TUTTI_REQUIRES(mu_);
  // Of all that are awaited.
  std::vector<Waiting> take_awaited() TUTTI_REQUIRES(mu_);
  static void let_go(const std::vector<Waiting>& waiting);
  void fail(const Status& status);
  void ask_each();
  void withdraw(std::size_t index);
  Status error(const Status& status) const;

  const Options options_;
  Cancellation cancellation_;  // of the calls

  mutable Mutex mu_;
  Status status_ TUTTI_GUARDED_BY(mu_);
  bool alone_ TUTTI_GUARDED_BY(mu_) = false;  // each is asked for by itself
  std::size_t missing_ TUTTI_GUARDED_BY(mu_);
  std::size_t bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  std::vector<Slot> slots_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

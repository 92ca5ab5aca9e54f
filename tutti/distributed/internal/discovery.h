// Finding out which devices the tasks of a session have.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/master_context.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::internal {

struct FoundTask {
  std::string task;
  std::shared_ptr<WorkerInterface> worker;
  std::vector<DeviceInfo> devices;  // under the task's name
};

// The tasks of `directory` that pass the filters, `own` always and first. kInvalidArgument for a bad filter.
Result<std::vector<FoundTask>> select_tasks(WorkerDirectory& directory, const std::vector<std::string>& filters,
                                            const std::string& own);

// Asks every task for its devices. A task that gives another error than kUnavailable ends the search. (The directory
// says of one that stays away why it is missing.) Thread-safe.
class Discovery : public std::enable_shared_from_this<Discovery> {
 public:
  using Done = std::function<void(Status, std::vector<FoundTask>)>;

  // What a task is that cannot be reached.
  enum class Absent { kWaitedFor, kError };

  Discovery(std::shared_ptr<MasterContext> context, std::vector<FoundTask> tasks, Absent absent, Done done);
  // `done` runs exactly once, possibly before this returns.
  void start();
  // Ends the search with `cause`, unless it has ended. May come before start().
  void cancel(Status cause);
  // "/job:ps/replica:0/task:0 (connection refused), ...": who has not answered, and why as far as it is known.
  std::string missing() const;

 private:
  struct State {
    bool answered = false;
    std::string reason;                   // why it could not be reached
    std::optional<Clock::TimerId> retry;  // when it is to be asked again
  };
  void ask(std::size_t index, bool wait, Duration backoff);
  void answer(std::size_t index, Result<GetStatusReply> reply, bool waited, Duration backoff);
  void ask_later(std::size_t index, Duration backoff);
  void end(std::size_t index, const Status& status);
  void finish();

  const std::shared_ptr<MasterContext> context_;
  const Absent absent_;
  Cancellation calls_;  // of the questions
  Done done_;

  mutable Mutex mu_;
  std::vector<FoundTask> tasks_ TUTTI_GUARDED_BY(mu_);
  std::vector<State> states_ TUTTI_GUARDED_BY(mu_);
  std::size_t unanswered_ TUTTI_GUARDED_BY(mu_);
  Status status_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

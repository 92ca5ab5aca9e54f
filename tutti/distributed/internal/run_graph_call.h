// One RunGraph call on a worker.
#pragma once

#include <functional>
#include <memory>

#include "tutti/core/cancel_when.h"
#include "tutti/distributed/internal/step_table.h"
#include "tutti/distributed/internal/worker_sessions.h"

namespace tutti::internal {

// 1. `sends` go into the step's table.
// 2. The step's first call starts the graph. A call that is not partial is the only one of its step.
// 3. `recv_keys` are taken from the table: when the graph has run, or, of a partial call, as they come.
// 4. The reply is given; that of the last partial call when the graph has run, too.
//
// An error of the graph is the reply's error, or of whichever partial call comes next. A call that is cancelled cancels
// the step.
class RunGraphCall : public std::enable_shared_from_this<RunGraphCall> {
 public:
  RunGraphCall(RunGraphRequest request, WorkerSessions::Part part, std::shared_ptr<Step> step,
               ReplyDone<RunGraphReply> done);

  // `began` is called before the graph is started, if this call starts it, and `ended` after it has run and those who
  // wait for that were told.
  void start(const CallOptions& options, Clock& clock, const std::function<void()>& began, std::function<void()> ended);

 private:
  Status send_inputs();
  void run(Status sent, std::function<void()> ended);
  void gather(bool wait);
  void gathered(Status status, NamedTensors values);
  void finish(const Status& status);

  RunGraphRequest request_;
  const WorkerSessions::Part part_;
  const std::shared_ptr<Step> step_;
  CancelWhen cancel_when_;
  RunGraphReply reply_;
  ReplyDone<RunGraphReply> done_;
};

}  // namespace tutti::internal

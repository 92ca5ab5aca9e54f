// One run of a compiled step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distributed/internal/call_watch.h"
#include "tutti/distributed/internal/compiled_step.h"
#include "tutti/distributed/internal/master_context.h"
#include "tutti/distributed/internal/parts_run.h"

namespace tutti::internal {

// New -> waiting (for the parts to be registered) -> running -> ended; then the tasks are told to forget the step. Ends
// early by cancel(), by its deadline or by its caller. Thread-safe.
class MasterStep : public std::enable_shared_from_this<MasterStep> {
 public:
  struct Setup {
    std::string session;
    std::shared_ptr<CompiledStep> compiled;
    StepOptions options;
    std::optional<TimePoint> deadline;
    Cancellation* cancellation = nullptr;  // the caller's; outlives the step's run
    bool register_only = false;            // ends once the parts are registered
  };
  // Fetches in the order of the signature.
  using Done = std::function<void(Status, std::vector<Tensor>, StepReport)>;

  MasterStep(std::shared_ptr<MasterContext> context, Setup setup);
  // To be called once. `done` runs exactly once, possibly before this returns. `feeds` as check_feeds wants them.
  void run(std::vector<Tensor> feeds, Done done);
  // May come before run(), which then ends at once.
  void cancel(Status cause);
  bool uses(const std::string& task) const { return setup_.compiled->uses(task); }

 private:
  enum class State { kNew, kWaiting, kRunning, kEnded };
  void launch(const Status& registered);
  std::vector<PartsRun::Call> make_calls();
  void expire();
  void collect(Status status, std::vector<RunGraphReply> replies);
  void end(Status status, std::vector<Tensor> fetches, StepReport report);

  const std::shared_ptr<MasterContext> context_;
  const Setup setup_;
  const std::int64_t id_;
  const TimePoint start_;
  CallWatch watch_;
  std::vector<Tensor> feeds_;                       // until it runs
  std::vector<std::vector<std::int64_t>> carried_;  // for each part: ended steps that it is told of
  Done done_;                                       // until it has ended

  Mutex mu_;
  State state_ TUTTI_GUARDED_BY(mu_) = State::kNew;
  Status early_ TUTTI_GUARDED_BY(mu_);  // why it was cancelled while new
  std::shared_ptr<PartsRun> parts_ TUTTI_GUARDED_BY(mu_);
};

// Takes the values out of what a part replied, in the order of its recv_keys. kInternal when one is missing.
Status take_values(const CompiledPart& part, const std::vector<std::string>& recv_keys, NamedTensors& recvs,
                   const std::function<void(std::size_t index, Tensor value)>& take);
// Tells the tasks that a step is over, with their next one where they can be told so; nobody waits for their answers. A
// step that failed may have done so because a task was cut off: that one is told when it comes back, also of the steps
// `carried` to it with this one.
void clean_up(const MasterContext& context, const CompiledStep& compiled, std::int64_t step_id, bool failed,
              const std::vector<std::vector<std::int64_t>>& carried = {});
// Puts the reports of parts together: one time line, beginning with the earliest.
StepReport merge_reports(std::int64_t step_id, std::vector<RunGraphReply>& replies);

}  // namespace tutti::internal

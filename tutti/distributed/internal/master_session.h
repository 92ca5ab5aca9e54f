// A client's session on a master.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tutti/distributed/internal/call_watch.h"
#include "tutti/distributed/internal/compiled_step.h"
#include "tutti/distributed/internal/discovery.h"
#include "tutti/distributed/internal/lru_map.h"
#include "tutti/distributed/internal/master_context.h"
#include "tutti/distributed/internal/master_graph.h"
#include "tutti/distributed/internal/master_step.h"
#include "tutti/distributed/internal/partial_step.h"
#include "tutti/distributed/internal/request_ids.h"
#include "tutti/distributed/internal/step_signature.h"
#include "tutti/distributed/master_interface.h"

namespace tutti::internal {

// Creating -> open -> closing -> closed. Closing begins when nothing runs any more that would go on; a session that
// could not be created is closed. Thread-safe; must be owned by a shared_ptr.
class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  struct Setup {
    std::string handle;
    SessionConfig config;
    // Of the workers; outlives the session.
    std::shared_ptr<WorkerDirectory> directory;
    std::string task;        // the master's own
    bool fail_fast = false;  // of the request
  };
  MasterSession(std::shared_ptr<MasterContext> context, Setup setup);

  const std::string& handle() const { return setup_.handle; }

  // To be called first, once. Finds the tasks' devices, places the graph and makes the workers' sessions.
  void create(std::string graph_def, const CallOptions& options, std::function<void(Status)> done);
  void extend(ExtendSessionRequest request, ReplyDone<ExtendSessionReply> done);
  void run(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done);
  void partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                         ReplyDone<PartialRunSetupReply> done);
  void make_callable(MakeCallableRequest request, const CallOptions& options, ReplyDone<MakeCallableReply> done);
  void run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done);
  void release_callable(std::int64_t handle);
  std::vector<DeviceInfo> devices() const;

  // What uses the task ends with `cause`, now and later.
  // Returns whether the session uses the task.
  bool lose_task(const std::string& task, const Status& cause);
  // Ends what runs with `cause`, waits for it and tells the workers; then `done` runs. More calls join the first.
  // `wait_for_workers`: `done` waits for the workers' answers too, for 10 s at most.
  void close(const Status& cause, bool wait_for_workers, std::function<void()> done);
  // A call of the client that leases it is held, or has ended.
  void lease(bool held);
  // Nothing runs, nobody leases it, and nothing was asked of it since.
  bool idle_since(TimePoint when) const;

 private:
  enum class State { kCreating, kOpen, kClosing, kClosed };
  // That are kept compiled. Programs have a few dozen; one that adds nodes in its loop and runs them has a new one each
  // time, and would without a limit fill the memory of every task. Callables count until they are released.
  static constexpr std::size_t kMaxSignatures = 1024;
  // A signature as it was asked for, with what it was compiled to.
  struct BoundStep {
    StepSignature signature;
    std::shared_ptr<CompiledStep> compiled;
  };
  struct Callable {
    std::shared_ptr<const BoundStep> step;
    StepOptions options;
  };

  // --- creating ---
  void discover();
  std::string missing() const;  // who has not answered
  void found(Status status, std::vector<FoundTask> tasks);
  Status add_graph(std::string graph_def);
  void create_worker_sessions();
  void end_creation(Status status);
  void abort_creation(const Status& cause);

  // --- steps ---
  void touch();
  // kAborted for a request that came already: a retry of a call that had come through.
  Status check_new(std::int64_t request_id, std::string_view method);
  Status check_open() const TUTTI_REQUIRES(mu_);
  Result<std::int64_t> extend_now(const ExtendSessionRequest& request);
  using Bound = std::function<void(Result<std::shared_ptr<const BoundStep>>)>;
  std::shared_ptr<const BoundStep> find_bound(const std::string& key);  // null: a new signature
  // At once for a signature that came before; a new one is compiled first. `then` runs once.
  void bind(std::string key, Signature asked, Bound then);
  Result<std::shared_ptr<const BoundStep>> bind_new(std::string key, const Signature& asked);
  Result<std::shared_ptr<CompiledStep>> compile(const Signature& names);
  // Steps that no signature leads to any more, when there are many.
  std::vector<std::shared_ptr<CompiledStep>> take_unused() TUTTI_REQUIRES(mu_);
  Status lost_cause(const CompiledStep& compiled) const TUTTI_REQUIRES(mu_);
  std::optional<TimePoint> deadline_of(const CallOptions& options, const StepOptions& step) const;
  void start_step(const BoundStep& step, std::vector<Tensor> feeds, const StepOptions& step_options,
                  const CallOptions& options, bool register_only, MasterStep::Done done);
  void run_bound(const std::shared_ptr<const BoundStep>& bound, RunStepRequest request, const CallOptions& options,
                 ReplyDone<RunStepReply> done);
  std::int64_t add_callable(Callable callable);
  Result<std::string> add_partial(const BoundStep& bound);
  void run_partial(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done);
  void count_out();

  // --- closing ---
  void drained();
  // DeleteWorkerSession to all that are there; `answered` (may be null) runs when all have answered.
  void tell_workers(const std::function<void()>& answered);
  void end_closing();

  const std::shared_ptr<MasterContext> context_;
  const Setup setup_;
  RecentRequests requests_;
  Cancellation creation_;
  std::unique_ptr<CallWatch> creation_watch_;
  bool workers_asked_ = false;              // for sessions of theirs; set while creating
  std::string graph_def_;                   // until it is created
  std::function<void(Status)> created_;     // until it is created
  std::atomic<std::int64_t> last_used_{0};  // nanoseconds of the clock; nothing else hangs on it

  // Set while creating, under mu_; constant afterwards.
  std::vector<FoundTask> tasks_;

  // Held for as long as a graph is placed and cut: nobody who has news of tasks or the time may wait for it. Taken
  // before mu_.
  Mutex graph_mu_;
  std::unique_ptr<MasterGraph> graph_ TUTTI_GUARDED_BY(graph_mu_);
  std::int64_t version_ TUTTI_GUARDED_BY(graph_mu_) = 0;

  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<WorkerInterface>> workers_ TUTTI_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<EndedSteps>> ended_steps_ TUTTI_GUARDED_BY(mu_);  // by task
  std::unordered_map<std::string, std::shared_ptr<CompiledStep>> compiled_ TUTTI_GUARDED_BY(mu_);
  std::set<std::string> lost_early_ TUTTI_GUARDED_BY(mu_);  // while all were being looked for
  int leases_ TUTTI_GUARDED_BY(mu_) = 0;                    // calls of the client that are held
  State state_ TUTTI_GUARDED_BY(mu_) = State::kCreating;
  std::shared_ptr<Discovery> discovery_ TUTTI_GUARDED_BY(mu_);
  LruMap<std::shared_ptr<const BoundStep>> bound_ TUTTI_GUARDED_BY(mu_){kMaxSignatures};
  std::unordered_map<std::int64_t, Callable> callables_ TUTTI_GUARDED_BY(mu_);
  std::int64_t next_callable_ TUTTI_GUARDED_BY(mu_) = 1;
  std::unordered_map<std::string, std::shared_ptr<PartialStep>> partials_ TUTTI_GUARDED_BY(mu_);
  std::int64_t next_partial_ TUTTI_GUARDED_BY(mu_) = 0;
  std::map<std::string, Status> lost_ TUTTI_GUARDED_BY(mu_);
  std::unordered_set<std::shared_ptr<MasterStep>> steps_ TUTTI_GUARDED_BY(mu_);
  int active_ TUTTI_GUARDED_BY(mu_) = 0;  // steps, calls of partial runs, the creation
  bool wait_for_workers_ TUTTI_GUARDED_BY(mu_) = true;
  std::vector<std::function<void()>> closed_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

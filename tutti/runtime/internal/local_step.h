// One step on the own machine: of a local session, or of a task's part of a graph.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "tutti/core/cancel_when.h"
#include "tutti/core/cancellation.h"
#include "tutti/core/thread_pool.h"
#include "tutti/kernels/kernel.h"
#include "tutti/runtime/executor.h"
#include "tutti/runtime/resource_store.h"
#include "tutti/runtime/step_stats.h"

namespace tutti::internal {

// Owns what a step needs and ends with it: cancellation, memory, trace.
//
//   auto step = make_shared<LocalStep>(...);  step->cancel_when().reached(...);  step->start(executable, args, done);
//
// `done` gets the step's status: when the step was cancelled, timed out or closed under its nodes, that cause
// comes first and what the nodes said follows.
class LocalStep : public StepScope, public std::enable_shared_from_this<LocalStep> {
 public:
  using Done = std::function<void(LocalStep&, Status, std::vector<Tensor>)>;

  // Ends early when `parent` is cancelled, which must outlive the step. What it did goes to `stats`, unless that is
  // null.
  LocalStep(std::int64_t id, Cancellation& parent, const Services& services, std::unique_ptr<Allocator> arena,
            Team& kernel_team, StepStats* stats);
  ~LocalStep() override;

  // What else ends it, until it has ended. For before the start.
  CancelWhen& cancel_when() { return *cancel_when_; }
  // On the calling thread; from the pool where steps have been started too deep inside one another's `done`.
  void start(std::shared_ptr<const Executable> executable, std::vector<Tensor> args, ThreadPool& pool, Done done);
  // Lets go of everything that belongs to the session, which may then be destroyed before the step is, and
  // gives the arena back. REQUIRES: the step has ended.
  std::unique_ptr<Allocator> detach();

  ResourceStore& step_resources() override;

 private:
  void run(std::vector<Tensor> args, Done done);
  Status explain(const Status& status) const;

  std::unique_ptr<Allocator> arena_;
  std::optional<Cancellation> own_cancellation_;
  std::optional<CancelWhen> cancel_when_;
  StepStats* const stats_;
  std::optional<StepTrace> own_trace_;
  std::shared_ptr<const Executable> executable_;
  Mutex mu_;
  std::unique_ptr<LocalResourceStore> resources_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

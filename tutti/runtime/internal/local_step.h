// One step of a local session.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/kernels/kernel.h"
#include "tutti/runtime/executor.h"
#include "tutti/runtime/resource_store.h"
#include "tutti/runtime/session.h"

namespace tutti::internal {

// Owns what a step needs and ends with it: cancellation, deadline, memory, trace.
//
//   auto step = make_shared<LocalStep>(...);  step->start(executable, args, done);
//
// `done` gets the step's status: when the step was cancelled, timed out or closed under its nodes, that cause
// comes first and what the nodes said follows.
class LocalStep : public StepScope, public std::enable_shared_from_this<LocalStep> {
 public:
  using Done = std::function<void(LocalStep&, Status, std::vector<Tensor>)>;

  // `session` is cancelled when the session closes; it, and what `options` points to, must outlive the step.
  LocalStep(std::int64_t id, Cancellation& session, const RunOptions& options, const Services& services,
            std::unique_ptr<Allocator> arena, Team& kernel_team);
  ~LocalStep() override;

  void start(std::shared_ptr<const Executable> executable, std::vector<Tensor> args, Done done);
  // Lets go of everything that belongs to the session, which may then be destroyed before the step is, and
  // gives the arena back. REQUIRES: the step has ended.
  std::unique_ptr<Allocator> detach();

  ResourceStore& step_resources() override;

 private:
  void watch(const RunOptions& options);
  void unwatch();
  void cancel(Status cause) { own_cancellation_->cancel(std::move(cause)); }
  Status explain(const Status& status) const;

  std::unique_ptr<Allocator> arena_;
  std::optional<Cancellation> own_cancellation_;
  Cancellation* const users_;
  Cancellation::Token users_token_ = 0;
  Clock::TimerId timer_ = 0;
  RunMetadata* const metadata_;
  std::optional<StepTrace> own_trace_;
  std::shared_ptr<const Executable> executable_;
  Mutex mu_;
  std::unique_ptr<LocalResourceStore> resources_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal

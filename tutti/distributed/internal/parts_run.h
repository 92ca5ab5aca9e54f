// One round of RunGraph calls to the parts of a step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/compiled_step.h"
#include "tutti/distributed/internal/step_errors.h"

namespace tutti::internal {

// Calls all parts, and ends when all have answered. The first failure cancels the others. Thread-safe.
class PartsRun : public std::enable_shared_from_this<PartsRun> {
 public:
  struct Call {
    const CompiledPart* part;
    RunGraphRequest request;
  };
  // The replies in the order of the calls; empty ones on an error.
  using Done = std::function<void(Status, std::vector<RunGraphReply>)>;

  // `compiled` has the parts.
  PartsRun(std::shared_ptr<const CompiledStep> compiled, std::vector<Call> calls, Done done);
  // `done` runs exactly once, possibly before this returns.
  void start();
  // Unless a part has failed by itself before, the round ends with `cause`. May come before start().
  void cancel(Status cause);
  // The tasks that have not answered.
  std::vector<std::string> running() const;

 private:
  void answer(std::size_t index, Result<RunGraphReply> reply);
  void finish();

  const std::shared_ptr<const CompiledStep> compiled_;
  std::vector<Call> calls_;  // requests are moved out by start()
  Cancellation cancellation_;
  Done done_;

  mutable Mutex mu_;
  std::vector<bool> answered_ TUTTI_GUARDED_BY(mu_);
  std::vector<RunGraphReply> replies_ TUTTI_GUARDED_BY(mu_);
  std::size_t missing_ TUTTI_GUARDED_BY(mu_);
  StepErrors errors_ TUTTI_GUARDED_BY(mu_);
  std::size_t succeeded_ TUTTI_GUARDED_BY(mu_) = 0;
  bool cancelled_ TUTTI_GUARDED_BY(mu_) = false;
  Status cause_ TUTTI_GUARDED_BY(mu_);  // why it was cancelled from outside
};

}  // namespace tutti::internal

// Replicas of a model that take their steps together: what the ways to do that share. sync_replicas.h has TensorFlow's,
// strict_replicas.h the one that gives the same bits on any number of workers.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"
#include "tutti/optim/optimizer.h"

namespace tutti {

// The collection of nodes whose updates are right only as a whole: a job whose graph has one restores a checkpoint
// where an update may have been applied in part.
inline constexpr const char* kWholeUpdatesOnly = "whole_updates_only";

// Builds, around an optimiser, the nodes that workers and their chief run. Every worker builds the same graph and has a
// session of its own; they meet through resources that have the same names on the parameter servers.
//
//   every worker, once:   ready_for_local_init must give no name, then local_step_init (the chief: chief_init)
//   the chief, once:      init_tokens
//   the chief, always:    sync, again and again, on a thread of its own: it applies what the workers sent
//   every worker:         train, once a step
//
// train/sync_replicas_hook.h does all of this but the last. Not thread-safe, as graphs are not. All throw Error.
class ReplicaSync {
 public:
  virtual ~ReplicaSync() = default;

  // The optimiser's own.
  std::vector<GradientAndVariable> compute_gradients(Output loss, const std::vector<Var>& variables = {},
                                                     const GradientOptions& options = {});
  Node* minimize(Output loss, const Var& global_step, const std::vector<Var>& variables = {});
  // Gives `train`. Variables without a gradient are left alone. Errors: no gradient at all; a second call.
  Node* apply_gradients(const std::vector<GradientAndVariable>& gradients, const Var& global_step);

  // Of this worker, as its options have it; may be empty.
  virtual const std::string& worker() const = 0;

  // --- After apply_gradients; kFailedPrecondition before. ---
  Node* train() const { return built().train; }
  Node* chief_init() const { return built().chief_init; }
  Node* local_step_init() const { return built().local_step_init; }
  // The names of global variables that have no value yet.
  Output ready_for_local_init() const { return built().ready_for_local_init; }
  // Applies one step's gradients: waits for them, lets the optimiser update, and lets the workers go on.
  Node* sync() const { return built().sync; }
  // Ends what waits, or will wait, in `train` with kOutOfRange: the end of training.
  Node* close() const { return built().close; }
  // The same, as queue runners have it.
  Node* cancel() const { return built().cancel; }
  // Ends a `sync` that waits for gradients, and any later one before chief_init, but none that has begun to update
  // variables. Null: there is no such thing, and the run of `sync` has to be cancelled.
  Node* interrupt() const { return built().interrupt; }
  // To be run by every worker beside its steps, where there is one (else null): it lasts until its step is cancelled or
  // the session ends, and tells the others at once that this worker left.
  Node* presence() const { return built().presence; }
  // Lets workers begin. -1: as many tokens as a step aggregates. Errors: fewer than the first step needs.
  virtual Node* init_tokens(int num_tokens = -1) = 0;

 protected:
  struct Nodes {
    Node* train = nullptr;
    Node* chief_init = nullptr;
    Node* local_step_init = nullptr;
    Output ready_for_local_init;
    Node* sync = nullptr;
    Node* close = nullptr;
    Node* cancel = nullptr;
    Node* interrupt = nullptr;
    Node* presence = nullptr;
  };

  // `optimizer` must outlive this.
  explicit ReplicaSync(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual Nodes build(const std::vector<GradientAndVariable>& gradients, const Var& global_step) = 0;
  const Nodes& built() const;

  Optimizer& optimizer_;

 private:
  bool is_built_ = false;
  Nodes nodes_;
};

}  // namespace tutti

// Synchronous training that gives the same bits on every run and on any number of workers.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tutti/optim/replica_sync.h"

namespace tutti {

struct StrictReplicasOptions {
  // Into how many parts the global batch is cut. The same for all workers, and for all runs that are to agree; workers
  // beyond this number have nothing to do.
  int num_shards = 1;
  // This worker's name, such as "/job:worker/task:1": no two may have the same.
  std::string worker;
  // A shard that is out for longer is given to another worker that has nothing else to do.
  std::chrono::milliseconds lease{10'000};
  // Builds what keeps moving averages of variables; it runs after the next step was opened. Empty: nothing.
  std::function<Node*()> variable_averages;
  std::string name = "strict_replicas";
};

// Every global step consists of num_shards shards. Each is computed by some worker, counts exactly once whoever
// computes it and however often, and the gradients are summed in the order of shards; nothing is dropped
// (docs/design/0009-strict-replicas.md). The gradient of a shard must not depend on who computes it: batches and random
// numbers are chosen by claim(), and workers have the same number of threads for one kernel, which the board of shards
// sees to: a worker with another one gets kFailedPrecondition.
//
// A worker always holds a claim: local_step_init (the chief's: chief_init) gets the first, waiting for the chief to
// begin, and `train` computes its shard and then gets the next, waiting for the step that follows where all shards of
// this one are out. Either feed the batch of the claim, which the run before gave,
//
//   session.run({}, {}, {strict.local_step_init()});  Tensor claim = session.run({}, {strict.claim()})[0];
//   for (;;) {
//     claim = session.run({{images, batch_of(claim)}, {strict.claim(), claim}}, {strict.next_claim()},
//                         {strict.train()})[0];
//   }
//
// (with the claim itself fed as well, so that batch and claim belong together also when a monitored session recovers
// and runs the step again), or choose the batch in the graph by claim().
class StrictReplicas : public ReplicaSync {
 public:
  // Makes claim() in `graph`. Errors: kInvalidArgument for a number of shards or a lease that is not positive, a worker
  // without a name.
  StrictReplicas(Graph& graph, Optimizer& optimizer, StrictReplicasOptions options);

  // int64 {step, shard}: what `train` computes in this step.
  Output claim() const { return claim_.read(); }
  // What it will compute in the one after. After apply_gradients.
  Output next_claim() const;
  const std::string& worker() const override { return options_.worker; }
  // There are no tokens: a node that does nothing.
  Node* init_tokens(int num_tokens = -1) override;

 protected:
  Nodes build(const std::vector<GradientAndVariable>& gradients, const Var& global_step) override;

 private:
  struct Exchanged;
  Exchanged exchange(const GradientAndVariable& pair, Output step);
  Node* next_shard(Output finished);
  Node* hold(Output claim, const std::string& name);

  const StrictReplicasOptions options_;
  const Var claim_;
  Node* board_ = nullptr;
  Output threads_;  // of this worker, for one kernel
  Output next_claim_;
};

}  // namespace tutti

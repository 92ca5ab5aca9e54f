// Synchronous training as TensorFlow's SyncReplicasOptimizer does it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/optim/replica_sync.h"

namespace tutti {

struct SyncReplicasOptions {
  // The gradients of so many replicas make one step.
  int replicas_to_aggregate = 1;
  // How many replicas there are; 0: as many as make a step. More: the rest are backups, whose gradients come too late
  // and are dropped. Fewer: they compute several times a step.
  int total_num_replicas = 0;
  // Builds what keeps moving averages of variables; it runs after the tokens were given out. Empty: nothing.
  std::function<Node*()> variable_averages;
  // How this worker is called in the gradient ledger, such as "/job:worker/task:1"; empty: "unknown" as TensorFlow's
  // workers are. It is an attribute that TensorFlow's servers overlook.
  std::string worker;
  std::string name = "sync_replicas";
};

// Node for node and name for name what TensorFlow builds for resource variables, so that Tutti's and TensorFlow's
// workers may share a job. For each variable there is a conditional accumulator on the variable's device, shared as
// "<variable>:0/grad_accum"; on the global step's device a queue "sync_token_q". A step, numbered as in TensorFlow:
//
//   1. A worker computes gradients and gives each to its accumulator, with its local step. A gradient whose local step
//      is behind the accumulator's is dropped: it is stale.
//   2. The chief's `sync` takes the mean of replicas_to_aggregate gradients from every accumulator (which then moves on
//      by one step), lets the optimiser apply them, and puts max(total, aggregated) tokens with the new global step
//      into the queue.
//   3. The worker, having given its gradients, takes a token: its new local step.
//
// Tokens belong to nobody: a fast worker may take several of one step and so do a slow one's share. With init_tokens(0)
// no gradient is of an old step; still, workers that each stop after a fixed number of steps may leave the last sync
// waiting: stop at a global step.
class SyncReplicas : public ReplicaSync {
 public:
  // Errors: kInvalidArgument for numbers of replicas that are not positive.
  SyncReplicas(Optimizer& optimizer, SyncReplicasOptions options);

  const std::string& worker() const override { return options_.worker; }
  Node* init_tokens(int num_tokens = -1) override;
  // After apply_gradients.
  const Var& local_step() const;
  Output token_queue() const;

 protected:
  Nodes build(const std::vector<GradientAndVariable>& gradients, const Var& global_step) override;

 private:
  struct Accumulator {
    Node* node = nullptr;
    std::string device;
    bool sparse = false;
  };
  Gradient exchange(const GradientAndVariable& pair);
  Gradient exchange_dense(Output gradient, const Var& variable);
  Gradient exchange_rows(const IndexedSlices& slices, const Var& variable);
  Node* set_global_step(const Accumulator& accumulator);
  Node* enqueue(int count, const std::vector<Node*>& after);
  AttrMap named(AttrMap attrs) const;

  const SyncReplicasOptions options_;
  const int total_num_replicas_;
  std::vector<Var> steps_;  // the local and the global one, once built
  Node* queue_ = nullptr;
  std::vector<Accumulator> accumulators_;
  std::vector<Node*> sent_;  // nodes that give gradients to accumulators
};

}  // namespace tutti

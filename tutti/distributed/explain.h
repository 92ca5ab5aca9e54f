// Saying before a run what a cluster would do with a graph.
#pragma once

#include <memory>
#include <string>

#include "tutti/distributed/cluster_spec.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/op_table.h"

namespace tutti {

struct ClusterExplainOptions {
  // Whose master the client uses: "/job:worker/replica:0/task:0". Empty: the first worker, or the first task where
  // there is none.
  std::string master;
  bool allow_soft_placement = false;
  std::shared_ptr<const OpTable> ops = builtin_ops();
};

// What tutti/graph/explain.h tells, for tasks of `tutti server`, which have a CPU each: where each node that
// `signature` needs would run and why, and what would cross between each pair of tasks in a step. Nothing is connected
// to. Errors are those that a session's run would give; kInvalidArgument for a master that is not of the cluster.
Result<std::string> explain(const ClusterSpec& cluster, const Graph& graph, const Signature& signature,
                            const ClusterExplainOptions& options = {});

}  // namespace tutti

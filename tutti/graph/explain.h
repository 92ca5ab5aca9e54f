// Saying before a run what a cluster would do.
#pragma once

#include <string>

#include "tutti/graph/graph.h"
#include "tutti/graph/placement.h"
#include "tutti/graph/subgraph.h"

namespace tutti {

struct ExplainOptions {
  PlacementOptions placement;
  // Where feeds enter and fetches leave; empty: the first device.
  std::string client_device;
};

// Where each node that `signature` needs would run and why, and what would cross between each pair of tasks in a step:
// tensors with their bytes, where shapes are known. `graph` stays as it is. It is placed and cut as a master does it
// (step_cut.h), and errors are the same. tutti/distributed/explain.h does it for a cluster. The text is for people:
//
//   /job:ps/replica:0/task:0/device:CPU:0: 2 nodes
//     w  VarHandleOp  asks for /job:ps/task:0
//     w/Read/ReadVariableOp  ReadVariableOp  goes with w
//   ...
//   /job:ps/replica:0/task:0 -> /job:worker/replica:0/task:0: 1 value, 313600 bytes
//     w/Read/ReadVariableOp:0  float [784,100]  313600 bytes
Result<std::string> explain(const Graph& graph, const Signature& signature, const ExplainOptions& options);

}  // namespace tutti

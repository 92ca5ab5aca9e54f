// From a placed graph to the parts of a step: what a master does for each signature, and explain() tells.
#pragma once

#include <functional>

#include "tutti/graph/partition.h"
#include "tutti/graph/subgraph.h"

namespace tutti {

struct StepCutOptions {
  PartitionOptions partition;
  // Gives devices to nodes that functions brought along. What has one asks for it.
  std::function<Status(Graph&)> place;
};

// Cuts `body`, which extract_subgraph took from `placed`: it takes the devices over, puts functions, branches and loops
// in the place of what calls them, joins control edges, and is partitioned. What `body` is then is what was cut.
Result<Partitioning> cut_step(FunctionBody& body, const Graph& placed, const StepCutOptions& options);

}  // namespace tutti

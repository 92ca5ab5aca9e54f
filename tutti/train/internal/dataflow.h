// Which node of a traced step waited for which.
#pragma once

#include <string>

#include "tutti/graph/graph.h"
#include "tutti/runtime/step_stats.h"

namespace tutti::internal {

// chrome_trace(stats) with an arrow for each value that went from one thread or device to another, as TensorFlow's
// timelines have them. Nodes that `graph` does not know (fused ones) have none.
std::string chrome_trace_with_dataflow(const StepStats& stats, const Graph& graph);

}  // namespace tutti::internal

// What every step of a graph receives from other tasks.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti::internal {

struct ReceivedKeys {
  std::vector<std::string> keys;
  std::vector<bool> unhurried;  // by key; see TaskGraph::unhurried
};

// None of a graph with branches or loops: there a receive may not run at all, or many times.
ReceivedKeys received_by(const Graph& graph);

}  // namespace tutti::internal

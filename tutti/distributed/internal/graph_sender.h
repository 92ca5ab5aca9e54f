// What of a client's graph its master has not seen yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti::internal {

// Not thread-safe.
class GraphSender {
 public:
  explicit GraphSender(const Graph& graph) : graph_(graph) {}

  // Nothing was added since the last sent().
  bool up_to_date() const { return graph_.id_limit() == static_cast<int>(sent_.size()); }
  // The new nodes and all functions, as a GraphDef. kFailedPrecondition, with the node, when one that was sent is
  // another one now, as after gradients through a function: a master's nodes never change.
  Result<std::string> additions() const;
  // The master has what additions() gave.
  void sent();

 private:
  const Graph& graph_;
  std::vector<std::uint64_t> sent_;  // by node id: what it was
};

}  // namespace tutti::internal

// Which nodes can run where, as a master sees it.
#pragma once

#include <functional>
#include <string>

#include "tutti/graph/graph.h"
#include "tutti/ops/op_table.h"

namespace tutti::internal {

// For PlacementOptions::has_kernel. Client's ends and calls of the graph's functions run on any CPU, and nodes of
// unknown ops, which never run, may be there. Both outlive it.
inline std::function<bool(const Node&, const std::string&)> kernel_finder(const OpTable& ops, const Graph& graph) {
  return [&ops, &graph](const Node& node, const std::string& type) {
    const bool has_none = node.op_name() == "_Arg" || node.op_name() == "_Retval";
    if (has_none || node.op().is_unknown || graph.library().contains(node.op_name())) return type == kCpu;
    return ops.find_kernel(node.op_name(), node.attrs(), type) != nullptr;
  };
}

}  // namespace tutti::internal

// Deciding on which device each node runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/core/device_name.h"
#include "tutti/graph/graph.h"

namespace tutti {

struct PlacementOptions {
  // Candidates, best first; full names.
  std::vector<DeviceName> devices;
  // Whether a kernel for this node exists on that type of device.
  std::function<bool(const Node&, const std::string& device_type)> has_kernel;
  // An unsatisfiable device type falls back to another one; job and task stay binding.
  bool allow_soft_placement = false;
};

// Gives every node of `graph` an assigned device. Nodes joined by `_class: loc:@x`, by reference edges, or by
// a resource handle go together. kInvalidArgument "Cannot assign a device for operation NAME: ..." otherwise.
Status place(Graph& graph, const PlacementOptions& options);

}  // namespace tutti

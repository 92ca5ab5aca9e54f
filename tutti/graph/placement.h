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

// Why a node is where it is.
struct PlacementReason {
  enum Kind {
    kFirstDevice,  // nothing spoke for another one
    kAsked,        // it asked for this, perhaps in part
    kStays,        // it has state, which was there before
    kWithOther,    // goes together with `other`, which asked
    kInput,        // reads only the shape of `other`
    kReaders,      // all its readers are there, `other` among them
  };
  Kind kind = kFirstDevice;
  const Node* other = nullptr;
};

// Gives every node of `graph` an assigned device, as TensorFlow's placer does. Nodes joined by `_class: loc:@x`, by
// reference edges, or by a resource handle go together; what a variable or handle asks for is stronger than what its
// users ask for. A node without inputs goes where all its readers are, one that reads shapes where its input is, others
// to the first device that fits what they ask for. kInvalidArgument "Cannot assign a device for operation NAME: ..."
// otherwise. `why`, unless null: the reasons, by node id.
Status place(Graph& graph, const PlacementOptions& options, std::vector<PlacementReason>* why = nullptr);

// Best first, as TensorFlow's master has it: GPUs before other types, then the devices of `local`, the master's own
// task, then by name.
void sort_for_placement(std::vector<DeviceName>& devices, const DeviceName& local);

}  // namespace tutti

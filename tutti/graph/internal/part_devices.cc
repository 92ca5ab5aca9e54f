#include "tutti/graph/internal/part_devices.h"

#include "tutti/graph/internal/loop_frames.h"

namespace tutti {
namespace {

// The first data reader of each node, by id.
std::vector<const Node*> first_readers(const Graph& graph) {
  std::vector<const Node*> readers(graph.id_limit(), nullptr);
  for (const Node* node : graph.nodes()) {
    for (const Output& input : node->inputs()) {
      if (input && readers[input.node->id()] == nullptr) readers[input.node->id()] = node;
    }
  }
  return readers;
}

// The node that `node` goes with, or null.
const Node* companion(const Node& node, const std::vector<const Node*>& readers) {
  switch (loop_role(node)) {
    case LoopRole::kSwitch:
    case LoopRole::kExit:
      return node.input(0).node;
    case LoopRole::kEnter:
    case LoopRole::kNextIteration:
      return node.output_types()[0].is_ref ? nullptr : readers[node.id()];
    default:
      return nullptr;
  }
}

}  // namespace

Result<std::vector<std::string>> part_devices(const FunctionBody& body, const std::vector<Node*>& order,
                                              const std::string& client_device) {
  std::vector<std::string> devices(body.graph->id_limit());
  for (const Node* node : order) devices[node->id()] = node->assigned_device();
  for (const Node* node : body.args) devices[node->id()] = client_device;
  for (const Node* node : body.retvals) devices[node->id()] = client_device;
  const std::vector<const Node*> readers = first_readers(*body.graph);
  for (const Node* node : order) {
    if (devices[node->id()].empty()) return invalid_argument(node->describe(), " has no device: it was not placed");
    if (const Node* other = companion(*node, readers)) devices[node->id()] = devices[other->id()];
  }
  return devices;
}

}  // namespace tutti

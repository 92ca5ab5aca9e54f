#include "tutti/distributed/internal/graph_sender.h"

#include <functional>

#include "tutti/graph/graph_def.h"

namespace tutti::internal {
namespace {

// Of op, edges and the number of attributes: what rebuilding a node changes.
std::uint64_t fingerprint(const Node* node) {
  if (node == nullptr) return 0;
  std::uint64_t hash = std::hash<std::string>{}(node->op_name());
  auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const Output& input : node->inputs()) {
    add(input.node == nullptr ? ~std::uint64_t{0} : static_cast<std::uint64_t>(input.node->id()));
    add(static_cast<std::uint64_t>(input.index));
  }
  add(node->inputs().size());
  for (const Node* before : node->control_inputs()) add(static_cast<std::uint64_t>(before->id()));
  add(static_cast<std::uint64_t>(node->num_outputs()));
  add(node->attrs().size());
  return hash;
}

}  // namespace

Result<std::string> GraphSender::additions() const {
  for (std::size_t id = 0; id < sent_.size(); ++id) {
    const Node* node = graph_.node_by_id(static_cast<int>(id));
    if (fingerprint(node) == sent_[id]) continue;
    return failed_precondition(node == nullptr ? std::string("a node") : node->describe(),
                               " was changed after it had been sent to the master (gradients through a function "
                               "rebuild its call): build the whole graph before the first run, or make a new session");
  }
  return export_graph_def(graph_, static_cast<int>(sent_.size()));
}

void GraphSender::sent() {
  for (int id = static_cast<int>(sent_.size()); id < graph_.id_limit(); ++id) {
    sent_.push_back(fingerprint(graph_.node_by_id(id)));
  }
}

}  // namespace tutti::internal

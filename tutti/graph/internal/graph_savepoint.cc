#include "tutti/graph/internal/graph_savepoint.h"

#include <utility>

namespace tutti::internal {

GraphSavepoint::~GraphSavepoint() {
  if (kept_) return;
  for (; !saved_.empty(); saved_.pop_back()) {
    *graph_.node_by_id(saved_.back().id()) = std::move(saved_.back());
  }
  const std::vector<bool> stays = read_by_older();
  for (int id = first_new_id_; id < graph_.id_limit(); ++id) {
    Node* node = graph_.node_by_id(id);
    if (node != nullptr && !stays[id]) graph_.remove(*node);
  }
}

std::vector<bool> GraphSavepoint::read_by_older() const {
  std::vector<bool> seen(graph_.id_limit(), false);
  std::vector<const Node*> stack;
  const auto enter = [&](const Node* node) {
    if (node == nullptr || node->id() < first_new_id_ || seen[node->id()]) return;
    seen[node->id()] = true;
    stack.push_back(node);
  };
  const auto enter_inputs = [&](const Node& node) {
    for (const Output& input : node.inputs()) enter(input.node);
    for (const Node* before : node.control_inputs()) enter(before);
  };
  for (int id = 0; id < first_new_id_; ++id) {
    if (const Node* node = graph_.node_by_id(id)) enter_inputs(*node);
  }
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    enter_inputs(*node);
  }
  return seen;
}

}  // namespace tutti::internal

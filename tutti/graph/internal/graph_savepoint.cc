#include "tutti/graph/internal/graph_savepoint.h"

#include <algorithm>
#include <utility>

namespace tutti::internal {

GraphSavepoint::GraphSavepoint(Graph& graph) : graph_(graph), first_new_id_(graph.id_limit()) {
  for (const auto& [name, nodes] : graph.collections()) collected_[name] = nodes.size();
}

GraphSavepoint::~GraphSavepoint() {
  if (kept_) return;
  for (; !saved_.empty(); saved_.pop_back()) {
    *graph_.node_by_id(saved_.back().id()) = std::move(saved_.back());
  }
  const std::vector<bool> stays = read_by_older();
  restore_collections(stays);
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

// New nodes that stay, stay in theirs.
void GraphSavepoint::restore_collections(const std::vector<bool>& stays) {
  Graph::Collections collections = graph_.collections();
  for (auto& [name, nodes] : collections) {
    const auto known = collected_.find(name);
    const std::size_t count = known == collected_.end() ? 0 : known->second;
    nodes.erase(std::remove_if(nodes.begin() + static_cast<std::ptrdiff_t>(count), nodes.end(),
                               [&](const Node* node) { return !stays[node->id()]; }),
                nodes.end());
  }
  std::erase_if(collections, [&](const auto& collection) {
    return collection.second.empty() && !collected_.contains(collection.first);
  });
  graph_.set_collections(std::move(collections));
}

}  // namespace tutti::internal

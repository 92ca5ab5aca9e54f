#include "tutti/graph/reference_aliases.h"

#include <cstddef>

#include "tutti/graph/internal/loop_frames.h"

namespace tutti {
namespace {

bool is_reference(const Output& value) {
  return value.node->output_types()[static_cast<std::size_t>(value.index)].is_ref;
}

// Whether output `index` of a node that hands values on is one of these values.
bool is_handed_on(const Node& node, int index) { return index == 0 || loop_role(node) == LoopRole::kSwitch; }

}  // namespace

bool hands_on(const Node& node, int i) {
  switch (loop_role(node)) {
    case LoopRole::kMerge:
      return true;
    case LoopRole::kSwitch:
    case LoopRole::kEnter:
    case LoopRole::kExit:
    case LoopRole::kNextIteration:
      return i == 0;
    case LoopRole::kCondition:
      return false;
    case LoopRole::kNone:
      return i == 0 && node.op().has(kPassThrough);
  }
  return false;
}

ReferenceAliases::ReferenceAliases(const Graph& graph)
    : hands_on_reference_(static_cast<std::size_t>(graph.id_limit()), false) {
  struct Reader {
    const Node* node;
    int source_output;
  };
  std::vector<std::vector<Reader>> readers(hands_on_reference_.size());  // by node id; those that hand on
  std::vector<const Node*> found;
  const auto add = [&](const Node& node) {
    const auto id = static_cast<std::size_t>(node.id());
    if (hands_on_reference_[id]) return;
    hands_on_reference_[id] = true;
    found.push_back(&node);
  };
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < static_cast<int>(node->inputs().size()); ++i) {
      const Output input = node->input(i);
      if (!input || !hands_on(*node, i)) continue;
      readers[static_cast<std::size_t>(input.node->id())].push_back({node, input.index});
      if (is_reference(input)) add(*node);
    }
  }
  while (!found.empty()) {
    const Node& node = *found.back();
    found.pop_back();
    for (const Reader& reader : readers[static_cast<std::size_t>(node.id())]) {
      if (is_handed_on(node, reader.source_output)) add(*reader.node);
    }
  }
}

bool ReferenceAliases::contains(const Output& value) const {
  if (is_reference(value)) return true;
  const auto id = static_cast<std::size_t>(value.node->id());
  return id < hands_on_reference_.size() && hands_on_reference_[id] && is_handed_on(*value.node, value.index);
}

}  // namespace tutti

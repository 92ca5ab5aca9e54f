#include "tutti/graph/internal/loop_frames.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tutti {
namespace {

// As deep as the executor goes.
constexpr int kMaxLoopDepth = 1000;

class Finder {
 public:
  explicit Finder(const Graph& graph) {
    result_.of.assign(graph.id_limit(), 0);
    result_.of_outputs.assign(graph.id_limit(), 0);
    result_.frames.emplace_back();
  }

  Result<LoopFrames> run(const std::vector<Node*>& order) {
    for (Node* node : order) TUTTI_RETURN_IF_ERROR(visit(*node));
    for (const Node* node : order) TUTTI_RETURN_IF_ERROR(check_back_edges(*node));
    return std::move(result_);
  }

 private:
  Status visit(Node& node) {
    TUTTI_ASSIGN_OR_RETURN(const int frame, frame_of_inputs(node));
    result_.of[node.id()] = frame;
    int& of_outputs = result_.of_outputs[node.id()];
    of_outputs = frame;
    switch (loop_role(node)) {
      case LoopRole::kEnter:
        of_outputs = child_of(frame, node);
        if (result_.frames[of_outputs].depth > kMaxLoopDepth) {
          return invalid_argument(node.describe(), ": loops are nested more than ", kMaxLoopDepth, " deep");
        }
        break;
      case LoopRole::kExit:
        of_outputs = result_.frames[frame].parent;
        [[fallthrough]];
      case LoopRole::kNextIteration:
        if (frame == 0) return invalid_argument(node.describe(), ": outside of every loop");
        break;
      case LoopRole::kCondition:
        if (result_.frames[frame].condition == nullptr) result_.frames[frame].condition = &node;
        break;
      default:
        break;
    }
    return {};
  }

  Result<int> frame_of_inputs(const Node& node) const {
    int frame = -1;
    auto join = [&](const Node& from) -> Status {
      const int other = result_.of_outputs[from.id()];
      if (frame >= 0 && frame != other) {
        return invalid_argument(node.describe(), ": its inputs come from different loops, ", describe(frame), " and ",
                                describe(other));
      }
      frame = other;
      return {};
    };
    for (const Output& input : node.inputs()) {
      if (input && !is_back_edge(*input.node, node)) TUTTI_RETURN_IF_ERROR(join(*input.node));
    }
    for (const Node* before : node.control_inputs()) TUTTI_RETURN_IF_ERROR(join(*before));
    return std::max(frame, 0);
  }

  Status check_back_edges(const Node& node) const {
    for (const Output& input : node.inputs()) {
      if (!input || !is_back_edge(*input.node, node)) continue;
      const int from = result_.of[input.node->id()];
      const int to = result_.of[node.id()];
      if (from == to) continue;
      return invalid_argument(node.describe(), ", in ", describe(to), ", continues ", input.node->describe(),
                              ", which is in ", describe(from));
    }
    return {};
  }

  int child_of(int parent, const Node& enter) {
    const std::string& name = enter.attr<std::string>("frame_name");
    auto [it, is_new] = by_name_.try_emplace({parent, name}, static_cast<int>(result_.frames.size()));
    if (is_new) {
      result_.frames.push_back({.parent = parent,
                                .depth = result_.frames[parent].depth + 1,
                                .name = name,
                                .parallel_iterations = enter.attr<std::int64_t>("parallel_iterations")});
    }
    return it->second;
  }

  std::string describe(int frame) const {
    if (frame == 0) return "no loop";
    return str_cat("loop \"", printable(result_.frames[frame].name), "\"");
  }

  LoopFrames result_;
  std::map<std::pair<int, std::string>, int> by_name_;
};

}  // namespace

LoopRole loop_role(const Node& node) {
  if (!node.op().has(kControlFlow)) return LoopRole::kNone;
  std::string_view op = node.op_name();
  if (op.starts_with("Ref")) op.remove_prefix(3);
  if (op == "Switch") return LoopRole::kSwitch;
  if (op == "Merge") return LoopRole::kMerge;
  if (op == "Enter") return LoopRole::kEnter;
  if (op == "Exit") return LoopRole::kExit;
  if (op == "NextIteration") return LoopRole::kNextIteration;
  if (op == "LoopCond") return LoopRole::kCondition;
  return LoopRole::kNone;
}

Result<LoopFrames> LoopFrames::find(const Graph& graph, const std::vector<Node*>& order) {
  return Finder(graph).run(order);
}

}  // namespace tutti

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/graph/internal/loop_frames.h"
#include "tutti/graph/internal/purity.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/reference_aliases.h"

namespace tutti {
namespace {

// Values of a gate, and what one of them is made of: each exit that goes may cost as many edges as both together.
constexpr std::size_t kMostMembers = 8;

bool contains(std::span<Node* const> nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// A gate is a NoOp that waits for several values; behind it each of them is handed on by an Identity of its own, here
// called an exit. The exit goes: its value's node waits itself, for what the gate's other values are made of.
class GateOpener {
 public:
  explicit GateOpener(FunctionBody& body) : body_(body), graph_(*body.graph), aliases_(graph_) {}

  Status run() {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.topological_order());
    const Result<LoopFrames> frames = LoopFrames::find(graph_, order);
    if (!frames.ok() || frames->frames.size() == 1) return {};  // what is wrong with loops is said when they are run
    for (Node* node : order) {
      for (const Output& input : node->inputs()) readers_[input.node] += input ? 1 : 0;
      for (Node* before : node->control_inputs()) followers_[before].push_back(node);
    }
    for (Node* node : order) {
      if (frames->of[static_cast<std::size_t>(node->id())] > 0 && is_exit(*node)) open(*node);
    }
    remove_opened();
    return {};
  }

 private:
  bool is_exit(const Node& node) const {
    // One gate: of two, one may wait for what waits for the other.
    if (node.op_name() != "Identity" || !node.input(0) || node.control_inputs().size() != 1 ||
        contains(body_.targets, &node)) {
      return false;
    }
    const Node& gate = *node.control_inputs()[0];
    if (gate.op_name() != "NoOp" || gate.control_inputs().size() > kMostMembers) return false;
    Node& source = *node.input(0).node;
    if (values_.contains(&source) || readers_.at(&source) != 1 || source.num_outputs() != 1 || !is_movable(source) ||
        contains(body_.targets, &source) || source.requested_device() != node.requested_device()) {
      return false;
    }
    // Nobody but the gate waits for the value: so nothing that it will wait for waits for it.
    const auto waiting = followers_.find(&source);
    return waiting == followers_.end() || std::all_of(waiting->second.begin(), waiting->second.end(),
                                                      [&](const Node* follower) { return follower == &gate; });
  }

  // Whether it may be computed later, or not be waited for: pure, and no input is the read of a reference variable,
  // which kernels read when they run.
  bool is_movable(const Node& node) const {
    return is_pure(node) && std::none_of(node.inputs().begin(), node.inputs().end(),
                                         [this](const Output& input) { return aliases_.contains(input); });
  }

  // Whether waiting for the inputs of a node says the same as waiting for it. A value of control flow may be dead where
  // its node is not.
  bool is_made_of_inputs(const Node& node) const {
    const bool is_wide = node.inputs().size() + node.control_inputs().size() > kMostMembers;
    if (node.op().has(kIgnoresDeadControl) || is_wide) return false;
    return is_movable(node) && std::none_of(node.inputs().begin(), node.inputs().end(), [](const Output& input) {
             return input.node->op().has(kControlFlow) || input.node->op().has(kTransfer);
           });
  }

  void open(Node& exit) {
    Node& source = *exit.input(0).node;
    std::vector<Node*> before(source.control_inputs().begin(), source.control_inputs().end());
    const auto wait_for = [&](Node* other) {
      const bool reads = std::any_of(source.inputs().begin(), source.inputs().end(),
                                     [other](const Output& input) { return input.node == other; });
      if (reads || other == &source || contains(before, other)) return;
      before.push_back(other);
      followers_[other].push_back(&source);
    };
    for (const Node* gate : exit.control_inputs()) {
      for (Node* member : gate->control_inputs()) {
        if (!is_made_of_inputs(*member)) {
          wait_for(member);
          continue;
        }
        for (const Output& input : member->inputs()) wait_for(input.node);
        for (Node* other : member->control_inputs()) wait_for(other);
      }
    }
    graph_.set_control_inputs(source, std::move(before));
    for (Node* follower : followers_[&exit]) followers_[&source].push_back(follower);
    values_[&exit] = &source;
  }

  void remove_opened() {
    if (values_.empty()) return;
    const auto current = [this](Node* node) {
      const auto opened = values_.find(node);
      return opened == values_.end() ? node : opened->second;
    };
    graph_.rewrite_inputs([&](Output value) { return Output(current(value.node), value.index); });
    std::unordered_set<Node*> gates;
    for (const auto& [exit, source] : values_)
      gates.insert(exit->control_inputs().begin(), exit->control_inputs().end());
    for (Node* node : graph_.nodes()) {
      std::vector<Node*> before(node->control_inputs().begin(), node->control_inputs().end());
      for (Node*& other : before) other = current(other);
      if (!values_.contains(node)) graph_.set_control_inputs(*node, std::move(before));
    }
    for (const auto& [exit, source] : values_) graph_.remove(*exit);
    // Gates that nobody is behind any more keep nobody waiting.
    for (const Node* node : graph_.nodes()) {
      for (Node* before : node->control_inputs()) gates.erase(before);
    }
    for (Node* target : body_.targets) gates.erase(target);
    for (Node* gate : gates) graph_.remove(*gate);
  }

  FunctionBody& body_;
  Graph& graph_;
  const ReferenceAliases aliases_;
  std::unordered_map<const Node*, int> readers_;
  std::unordered_map<const Node*, std::vector<Node*>> followers_;
  std::unordered_map<Node*, Node*> values_;  // of the exits that go: what they hand on
};

}  // namespace

Status open_gates(FunctionBody& body) { return GateOpener(body).run(); }

}  // namespace tutti

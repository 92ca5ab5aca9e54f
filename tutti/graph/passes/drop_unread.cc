#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/graph/internal/purity.h"
#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

class UnreadDropper {
 public:
  explicit UnreadDropper(FunctionBody& body) : body_(body), graph_(*body.graph) {}

  Status run() {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.topological_order());
    const std::vector<Node*> unread = find_unread(order);
    if (unread.empty()) return {};
    for (Node* node : unread) TUTTI_RETURN_IF_ERROR(stand_in(*node));
    for (Node* node : order) {
      if (!stand_ins_.contains(node)) wait_for_stand_ins(*node);
    }
    for (Node* node : unread) graph_.remove(*node);
    return {};
  }

 private:
  // Sources first. Readers come later in `order`, so that who reads for nobody is known before what it reads.
  std::vector<Node*> find_unread(const std::vector<Node*>& order) {
    std::unordered_set<const Node*> wanted;
    for (const auto* nodes : {&body_.args, &body_.retvals, &body_.targets}) wanted.insert(nodes->begin(), nodes->end());
    std::vector<int> reads(static_cast<std::size_t>(graph_.id_limit()), 0);
    const auto count = [&](const Node& node, int by) {
      for (const Output& input : node.inputs()) {
        if (input) reads[static_cast<std::size_t>(input.node->id())] += by;
      }
    };
    for (const Node* node : order) count(*node, 1);
    std::vector<Node*> unread;
    for (std::size_t i = order.size(); i-- > 0;) {
      Node& node = *order[i];
      if (reads[static_cast<std::size_t>(node.id())] > 0 || wanted.contains(&node) || !may_drop(node)) continue;
      unread.push_back(&node);
      count(node, -1);
    }
    std::reverse(unread.begin(), unread.end());
    return unread;
  }

  static bool may_drop(const Node& node) {
    const bool computes = !node.inputs().empty() || node.op_name() == "Const";
    if (node.num_outputs() == 0 || !computes || !is_pure(node)) return false;
    // A value of theirs may be dead where the node itself is not: waiting for the node would say something else.
    return std::none_of(node.inputs().begin(), node.inputs().end(), [](const Output& input) {
      return input.node->op().has(kControlFlow) || input.node->op().has(kTransfer);
    });
  }

  // Those that are still there in their place, each once.
  class Causes {
   public:
    explicit Causes(const UnreadDropper& dropper) : stand_ins_(dropper.stand_ins_) {}
    void add(Node* before) {
      const auto dropped = stand_ins_.find(before);
      Node* const cause = dropped == stand_ins_.end() ? before : dropped->second;
      if (cause != nullptr && seen_.insert(cause).second) nodes_.push_back(cause);
    }
    std::vector<Node*> take() { return std::move(nodes_); }

   private:
    const std::unordered_map<Node*, Node*>& stand_ins_;
    std::vector<Node*> nodes_;
    std::unordered_set<Node*> seen_;
  };

  // What those who waited for `node` wait for instead: all that it waited for itself.
  Status stand_in(Node& node) {
    Causes causes(*this);
    for (const Output& input : node.inputs()) causes.add(input.node);
    for (Node* before : node.control_inputs()) causes.add(before);
    std::vector<Node*> before = causes.take();
    Node*& instead = stand_ins_[&node];
    if (before.size() <= 1) {
      instead = before.empty() ? nullptr : before[0];
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(instead, graph_.add_exact({.op = "NoOp",
                                                      .name = graph_.unique_name(node.name() + "/unread"),
                                                      .control_inputs = std::move(before)}));
    graph_.set_requested_device(*instead, node.requested_device());
    graph_.set_assigned_device(*instead, node.assigned_device());
    return {};
  }

  void wait_for_stand_ins(Node& node) {
    const auto controls = node.control_inputs();
    const auto is_dropped = [&](Node* before) { return stand_ins_.contains(before); };
    if (std::none_of(controls.begin(), controls.end(), is_dropped)) return;
    Causes causes(*this);
    for (Node* before : controls) causes.add(before);
    graph_.set_control_inputs(node, causes.take());
  }

  FunctionBody& body_;
  Graph& graph_;
  std::unordered_map<Node*, Node*> stand_ins_;  // of the dropped; null: nothing to wait for
};

}  // namespace

Status drop_unread(FunctionBody& body) { return UnreadDropper(body).run(); }

}  // namespace tutti

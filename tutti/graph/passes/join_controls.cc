#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

// Edges that may be added; a body that would need more stays as it is.
constexpr std::size_t kMostEdges = 1'000'000;

class ControlJoiner {
 public:
  ControlJoiner(FunctionBody& body, const PartOf& part_of) : body_(body), graph_(*body.graph), part_of_(part_of) {}

  Status run() {
    const std::vector<Node*> nodes = graph_.nodes();
    const auto has_branches = [](const Node* node) { return node->op().has(kControlFlow); };
    if (std::any_of(nodes.begin(), nodes.end(), has_branches)) return {};
    for (Node* node : nodes) TUTTI_RETURN_IF_ERROR(draw_directly(*node));
    remove_unused(nodes);
    return {};
  }

 private:
  const std::string& part(const Node& node) {
    auto [it, is_new] = parts_.try_emplace(node.assigned_device());
    if (is_new) it->second = part_of_(node.assigned_device());
    return it->second;
  }

  static bool is_group(const Node& node) { return node.op_name() == "NoOp" && node.inputs().empty(); }

  // Whether it waits for other parts than its own, so that those who wait for it wait for a detour.
  bool spans_parts(const Node& group) {
    return std::any_of(group.control_inputs().begin(), group.control_inputs().end(),
                       [&](const Node* before) { return part(*before) != part(group); });
  }

  // What `node` truly waits for, in order.
  std::vector<Node*> causes(const Node& node) {
    std::vector<Node*> found;
    std::set<const Node*> seen;
    std::vector<Node*> left(node.control_inputs().rbegin(), node.control_inputs().rend());
    while (!left.empty()) {
      Node* before = left.back();
      left.pop_back();
      if (!seen.insert(before).second) continue;
      if (!is_group(*before) || part(*before) == part(node) || !spans_parts(*before)) {
        found.push_back(before);
        continue;
      }
      left.insert(left.end(), before->control_inputs().rbegin(), before->control_inputs().rend());
    }
    return found;
  }

  Status draw_directly(Node& node) {
    if (node.control_inputs().empty() || edges_ > kMostEdges) return {};
    std::map<std::string, std::vector<Node*>> elsewhere;
    std::vector<Node*> before;
    for (Node* cause : causes(node)) {
      const bool here = part(*cause) == part(node);
      (here ? before : elsewhere[part(*cause)]).push_back(cause);
    }
    for (auto& [name, causes] : elsewhere) {
      TUTTI_ASSIGN_OR_RETURN(Node * last, join(std::move(causes)));
      before.push_back(last);
    }
    edges_ += before.size();
    graph_.set_control_inputs(node, std::move(before));
    return {};
  }

  // One node of their part that comes after all of them.
  Result<Node*> join(std::vector<Node*> nodes) {
    if (nodes.size() == 1) return nodes[0];
    std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    Node*& joined = joins_[nodes];
    if (joined != nullptr) return joined;
    edges_ += nodes.size();
    TUTTI_ASSIGN_OR_RETURN(
        joined, graph_.add_exact(
                    {.op = "NoOp", .name = graph_.unique_name(nodes[0]->name() + "/join"), .control_inputs = nodes}));
    graph_.set_requested_device(*joined, nodes[0]->requested_device());
    graph_.set_assigned_device(*joined, nodes[0]->assigned_device());
    return joined;
  }

  // Groups that nothing waits for any more.
  void remove_unused(const std::vector<Node*>& nodes) {
    const std::vector<std::vector<Node*>> consumers = graph_.consumers();
    std::vector<std::size_t> uses;
    for (const auto& readers : consumers) uses.push_back(readers.size());
    for (const Node* target : body_.targets) ++uses[static_cast<std::size_t>(target->id())];
    std::vector<Node*> unused;
    for (Node* node : nodes) {
      if (is_group(*node) && uses[static_cast<std::size_t>(node->id())] == 0) unused.push_back(node);
    }
    while (!unused.empty()) {
      Node* node = unused.back();
      unused.pop_back();
      const std::vector<Node*> before(node->control_inputs().begin(), node->control_inputs().end());
      graph_.remove(*node);
      for (Node* one : before) {
        if (--uses[static_cast<std::size_t>(one->id())] == 0 && is_group(*one)) unused.push_back(one);
      }
    }
  }

  FunctionBody& body_;
  Graph& graph_;
  const PartOf& part_of_;
  std::unordered_map<std::string, std::string> parts_;  // by device
  std::map<std::vector<Node*>, Node*> joins_;
  std::size_t edges_ = 0;
};

}  // namespace

Status join_controls(FunctionBody& body, const PartOf& part_of) { return ControlJoiner(body, part_of).run(); }

}  // namespace tutti

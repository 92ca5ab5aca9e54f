#include "tutti/graph/internal/splice.h"

#include <unordered_map>

#include "tutti/core/device_name.h"
#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

class Splicer {
 public:
  Splicer(Graph& graph, const SpliceSpec& spec) : graph_(graph), spec_(spec) {}

  Result<SplicedBody> run() {
    TUTTI_RETURN_IF_ERROR(find_needed());
    for (const Node* node : spec_.callee.graph->nodes()) {
      if (needed_[node->id()] && !arguments_.contains(node)) TUTTI_RETURN_IF_ERROR(copy(*node));
    }
    for (const Node* node : order_) TUTTI_RETURN_IF_ERROR(connect(*node, *copies_.at(node)));
    SplicedBody spliced;
    for (const Node* retval : spec_.callee.retvals) spliced.results.push_back(value_of(retval->input(0)));
    for (const Node* target : spec_.callee.targets) {
      if (auto it = copies_.find(target); it != copies_.end()) spliced.effects.push_back(it->second);
    }
    spliced.num_nodes = static_cast<int>(order_.size());
    return spliced;
  }

 private:
  Status find_needed() {
    needed_.assign(spec_.callee.graph->id_limit(), false);
    std::vector<const Node*> open;
    auto need = [&](const Node* node) {
      if (node == nullptr || needed_[node->id()]) return;
      needed_[node->id()] = true;
      open.push_back(node);
    };
    for (const Node* retval : spec_.callee.retvals) need(retval->input(0).node);
    for (const Node* target : spec_.callee.targets) need(target);
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      for (const Output& input : node->inputs()) need(input.node);
      for (const Node* before : node->control_inputs()) need(before);
    }
    for (std::size_t i = 0; i < spec_.callee.args.size(); ++i) {
      const Node* arg = spec_.callee.args[i];
      if (!needed_[arg->id()]) continue;
      TUTTI_ASSIGN_OR_RETURN(arguments_[arg], spec_.argument(static_cast<int>(i)));
    }
    return {};
  }

  Status copy(const Node& node) {
    const std::string name = graph_.unique_name(str_cat(spec_.scope, "/", node.name()));
    TUTTI_ASSIGN_OR_RETURN(Node * copied, graph_.copy_node(node, name));
    TUTTI_RETURN_IF_ERROR(set_device(*copied));
    if (node.op().has(kStateful)) note_way(*copied);
    if (const AttrValue* frame = copied->find_attr("frame_name"); frame != nullptr && node.op().has(kControlFlow)) {
      if (const auto* text = frame->get<std::string>()) {
        graph_.set_attr(*copied, "frame_name", str_cat(spec_.scope, "/", *text));
      }
    }
    copies_[&node] = copied;
    order_.push_back(&node);
    return {};
  }

  Status set_device(Node& copied) {
    if (spec_.call.requested_device().empty()) return {};
    Result<DeviceName> merged = DeviceName::parse(spec_.call.requested_device());
    if (!merged.ok()) return merged.status().with_context(spec_.call.describe());
    Result<DeviceName> own = DeviceName::parse(copied.requested_device());
    if (!own.ok()) return own.status().with_context(copied.describe());
    merged->override_with(*own);
    graph_.set_requested_device(copied, merged->to_string());
    return {};
  }

  static void append_way(const Node& node, std::vector<std::string>* way) {
    const AttrValue* attr = node.find_attr(kInlinedFrom);
    const auto* calls = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
    if (calls != nullptr) way->insert(way->end(), calls->begin(), calls->end());
  }

  // Bodies are spliced from the inside out, so the way inside is known already.
  void note_way(Node& copied) {
    std::vector<std::string> way;
    append_way(spec_.call, &way);
    way.push_back(spec_.scope);
    append_way(copied, &way);
    graph_.set_attr(copied, kInlinedFrom, std::move(way));
  }

  SplicedArgument value_of(Output inner) const {
    if (auto it = arguments_.find(inner.node); it != arguments_.end()) return it->second;
    return {.value = {copies_.at(inner.node), inner.index}};
  }

  Status connect(const Node& node, Node& copied) {
    bool is_gated = false;
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      if (!node.input(i)) return invalid_argument(node.describe(), ": input ", i, " is missing");
      const SplicedArgument input = value_of(node.input(i));
      is_gated = is_gated || input.is_gated;
      TUTTI_RETURN_IF_ERROR(graph_.set_input(copied, i, input.value));
    }
    std::vector<Node*> after;
    for (const Node* before : node.control_inputs()) {
      if (auto it = copies_.find(before); it != copies_.end()) after.push_back(it->second);
    }
    if (!is_gated && after.empty()) after.push_back(spec_.pivot);
    graph_.set_control_inputs(copied, std::move(after));
    rename_groups(copied);
    return {};
  }

  // `loc:@node` of a node of the body means its copy here.
  void rename_groups(Node& copied) {
    const AttrValue* attr = copied.find_attr("_class");
    const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
    if (classes == nullptr) return;
    std::vector<std::string> renamed = *classes;
    for (std::string& entry : renamed) {
      if (!entry.starts_with("loc:@")) continue;
      auto it = copies_.find(spec_.callee.graph->find(std::string_view(entry).substr(5)));
      if (it != copies_.end()) entry = str_cat("loc:@", it->second->name());
    }
    graph_.set_attr(copied, "_class", std::move(renamed));
  }

  Graph& graph_;
  const SpliceSpec& spec_;
  std::vector<bool> needed_;        // by id, of the callee's nodes
  std::vector<const Node*> order_;  // of the callee's nodes that were copied
  std::unordered_map<const Node*, Node*> copies_;
  std::unordered_map<const Node*, SplicedArgument> arguments_;
};

}  // namespace

Result<SplicedBody> splice_body(Graph& graph, const SpliceSpec& spec) { return Splicer(graph, spec).run(); }

}  // namespace tutti

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/core/device_name.h"
#include "tutti/graph/internal/output_hash.h"
#include "tutti/graph/passes/passes.h"

namespace tutti {
namespace {

// Functions that call others twice each grow without bound otherwise; the rest stay calls. What is gained by putting a
// body in the place of its call is lost again when a few functions are copied thousands of times, so the limit also
// grows with the nodes that were written.
constexpr std::size_t kMaxInlinedNodes = 50'000;
constexpr std::size_t kFreeInlinedNodes = 5'000;
constexpr std::size_t kMaxCopies = 20;
constexpr std::size_t kMaxDepth = 64;

bool has_loop_edges(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return node->op().has(kControlFlow); });
}

// The function that a node calls and does nothing but call.
std::optional<FunctionRef> called_function(const Node& node) {
  const FunctionLibrary& library = node.graph().library();
  if (library.contains(node.op_name())) return library.called_by(node);
  if (node.op_name() != "PartitionedCall" && node.op_name() != "StatefulPartitionedCall") return std::nullopt;
  const AttrValue* attr = node.find_attr("f");
  const FunctionRef* function = attr == nullptr ? nullptr : attr->get<FunctionRef>();
  return function == nullptr ? std::nullopt : std::optional(*function);
}

// A call, and the functions that it came out of.
struct Call {
  Node* node;
  std::vector<std::string> within;
};

class Inliner {
 public:
  explicit Inliner(FunctionBody& body) : body_(body), graph_(*body.graph) {}

  // Calls are replaced one after another; edges from them are re-routed in one sweep at the end.
  Status run() {
    // A node that has no inputs belongs to no branch and no loop: a body's would leave those of the call.
    if (has_loop_edges(graph_)) return {};
    for (Node* node : graph_.nodes()) {
      if (called_function(*node)) calls_.push_back({node, {}});
    }
    if (calls_.empty()) return {};
    written_nodes_ = graph_.nodes().size();
    if (Result<std::vector<Node*>> order = graph_.topological_order(); !order.ok()) return order.status();
    find_waited_for();
    while (!calls_.empty()) {
      Call call = std::move(calls_.front());
      calls_.pop_front();
      TUTTI_RETURN_IF_ERROR(inline_call(call));
    }
    if (replaced_.empty()) return {};
    reroute();
    graph_.reinfer_shapes();
    return {};
  }

 private:
  std::size_t max_inlined_nodes() const {
    return std::min(kMaxInlinedNodes, kFreeInlinedNodes + kMaxCopies * written_nodes_);
  }

  // Calls that control edges or the body's targets name.
  void find_waited_for() {
    for (Node* node : graph_.nodes()) waited_for_.insert(node->control_inputs().begin(), node->control_inputs().end());
    waited_for_.insert(body_.targets.begin(), body_.targets.end());
  }

  Status inline_call(const Call& call) {
    const FunctionRef function = *called_function(*call.node);
    if (call.within.size() >= kMaxDepth || inlined_nodes_ >= max_inlined_nodes()) return {};
    if (std::find(call.within.begin(), call.within.end(), function.name) != call.within.end()) return {};
    Result<FunctionBody> callee = graph_.library().instantiate(function, graph_.shared_ops(), graph_.shared_library());
    if (!callee.ok()) return callee.status().with_context(call.node->describe());
    if (has_loop_edges(*callee->graph)) return {};
    if (inlined_.insert(function.name).second) written_nodes_ += callee->graph->nodes().size();
    if (callee->args.size() != call.node->inputs().size() ||
        static_cast<int>(callee->retvals.size()) != call.node->num_outputs()) {
      return invalid_argument(call.node->describe(), ": function \"", printable(function.name), "\" takes ",
                              callee->args.size(), " arguments and gives ", callee->retvals.size(),
                              " results, the call has ", call.node->inputs().size(), " and ", call.node->num_outputs());
    }
    return expand(call, function.name, *callee);
  }

  // One call in the course of being replaced.
  struct Expansion {
    Node& call;
    FunctionBody& callee;
    Node* begin = nullptr;  // runs when the call could; null when the call waits for nothing
    std::unordered_map<const Node*, Node*> copies;
    std::unordered_map<const Node*, Output> arguments;
  };

  Status expand(const Call& call, const std::string& function, FunctionBody& callee) {
    Expansion x{*call.node, callee};
    TUTTI_RETURN_IF_ERROR(add_begin(x));
    TUTTI_RETURN_IF_ERROR(bind_arguments(x));
    TUTTI_RETURN_IF_ERROR(copy_nodes(x, call, function));
    TUTTI_RETURN_IF_ERROR(connect_nodes(x));
    TUTTI_RETURN_IF_ERROR(replace_outputs(x));
    replaced_.push_back(&x.call);
    return {};
  }

  Result<Node*> add_no_op(const Node& call, std::string_view name, std::vector<Node*> after) {
    return graph_.add_exact({.op = "NoOp",
                             .name = graph_.unique_name(str_cat(call.name(), "/", name)),
                             .control_inputs = std::move(after),
                             .device = call.requested_device()});
  }

  Result<Node*> add_identity(const Node& call, std::string_view name, Output value, std::vector<Node*> after) {
    return graph_.add_exact({.op = "Identity",
                             .name = graph_.unique_name(str_cat(call.name(), "/", name)),
                             .inputs = {value},
                             .attrs = {{"T", value.dtype()}},
                             .control_inputs = std::move(after),
                             .device = call.requested_device()});
  }

  Status add_begin(Expansion& x) {
    const auto controls = x.call.control_inputs();
    if (controls.empty()) return {};
    TUTTI_ASSIGN_OR_RETURN(x.begin, add_no_op(x.call, "input_control", {controls.begin(), controls.end()}));
    // What the call waited for may be a call itself, and must then be waited for as a whole.
    waited_for_.insert(controls.begin(), controls.end());
    return {};
  }

  Status bind_arguments(Expansion& x) {
    for (std::size_t i = 0; i < x.callee.args.size(); ++i) {
      Output value = x.call.input(static_cast<int>(i));
      if (!value) return invalid_argument(x.call.describe(), ": input ", i, " is missing");
      if (value.node->output_types()[value.index].is_ref) {
        // The call read the variable once, before its body ran.
        std::vector<Node*> after;
        if (x.begin != nullptr) after.push_back(x.begin);
        TUTTI_ASSIGN_OR_RETURN(Node * read, add_identity(x.call, str_cat("input_", i), value, std::move(after)));
        value = read->output();
      }
      if (value.dtype() != x.callee.args[i]->output_types()[0].dtype) {
        return invalid_argument(x.call.describe(), ": argument ", i, " must be ",
                                dtype_name(x.callee.args[i]->output_types()[0].dtype), ", got ",
                                dtype_name(value.dtype()));
      }
      x.arguments[x.callee.args[i]] = value;
    }
    return {};
  }

  Status copy_nodes(Expansion& x, const Call& call, const std::string& function) {
    std::unordered_set<const Node*> ends(x.callee.args.begin(), x.callee.args.end());
    ends.insert(x.callee.retvals.begin(), x.callee.retvals.end());
    for (const Node* node : x.callee.graph->nodes()) {
      if (ends.contains(node)) continue;
      TUTTI_ASSIGN_OR_RETURN(Node * copied,
                             graph_.copy_node(*node, graph_.unique_name(str_cat(x.call.name(), "/", node->name()))));
      TUTTI_RETURN_IF_ERROR(set_device(x.call, *copied));
      x.copies[node] = copied;
      ++inlined_nodes_;
      if (copied->op().has(kStateful) || called_function(*copied)) note_way(x.call, *copied);
      if (!called_function(*copied)) continue;
      calls_.push_back({copied, call.within});
      calls_.back().within.push_back(function);
    }
    return {};
  }

  void note_way(const Node& call, Node& copied) {
    std::vector<std::string> way;
    const AttrValue* before = call.find_attr(kInlinedFrom);
    if (const auto* calls = before == nullptr ? nullptr : before->get<std::vector<std::string>>()) way = *calls;
    way.push_back(call.name());
    graph_.set_attr(copied, kInlinedFrom, std::move(way));
  }

  // Where the body leaves the device open, the call's counts.
  Status set_device(const Node& call, Node& copied) {
    if (call.requested_device().empty()) return {};
    Result<DeviceName> merged = DeviceName::parse(call.requested_device());
    if (!merged.ok()) return merged.status().with_context(call.describe());
    Result<DeviceName> own = DeviceName::parse(copied.requested_device());
    if (!own.ok()) return own.status().with_context(copied.describe());
    merged->override_with(*own);
    graph_.set_requested_device(copied, merged->to_string());
    return {};
  }

  Output value_in(const Expansion& x, Output inner) const {
    if (auto it = x.arguments.find(inner.node); it != x.arguments.end()) return it->second;
    return {x.copies.at(inner.node), inner.index};
  }

  Status connect_nodes(Expansion& x) {
    for (const auto& [node, copied] : x.copies) {
      for (int i = 0; i < static_cast<int>(node->inputs().size()); ++i) {
        TUTTI_RETURN_IF_ERROR(graph_.set_input(*copied, i, value_in(x, node->input(i))));
      }
      std::vector<Node*> after;
      for (Node* before : node->control_inputs()) {
        // Of an argument: it is there when the call could run.
        auto it = x.copies.find(before);
        if (it != x.copies.end()) after.push_back(it->second);
      }
      waited_for_.insert(after.begin(), after.end());
      // Effects come after what the call waited for, whatever they read.
      const bool first = node->inputs().empty() && node->control_inputs().empty() && node->op_name() != "Const";
      if (x.begin != nullptr && (first || node->op().has(kStateful))) after.push_back(x.begin);
      graph_.set_control_inputs(*copied, std::move(after));
      rename_groups(x, *copied);
    }
    return {};
  }

  // `loc:@node` of a node of the body means its copy here.
  void rename_groups(const Expansion& x, Node& copied) {
    const AttrValue* attr = copied.find_attr("_class");
    const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
    if (classes == nullptr) return;
    std::vector<std::string> renamed = *classes;
    for (std::string& entry : renamed) {
      if (!entry.starts_with("loc:@")) continue;
      auto it = x.copies.find(x.callee.graph->find(std::string_view(entry).substr(5)));
      if (it != x.copies.end()) entry = str_cat("loc:@", it->second->name());
    }
    graph_.set_attr(copied, "_class", std::move(renamed));
  }

  // A call was over when its results and its effects were there.
  Status replace_outputs(Expansion& x) {
    std::vector<Node*> effects;
    for (Node* target : x.callee.targets) {
      auto it = x.copies.find(target);
      if (it != x.copies.end()) effects.push_back(it->second);
    }
    std::vector<Output> results;
    for (const Node* retval : x.callee.retvals) results.push_back(value_in(x, retval->input(0)));

    Node* end = nullptr;
    if (waited_for_.contains(&x.call) || !effects.empty()) {
      std::vector<Node*> after = effects;
      for (const Output& result : results) after.push_back(result.node);
      if (x.begin != nullptr) after.push_back(x.begin);
      waited_for_.insert(after.begin(), after.end());
      TUTTI_ASSIGN_OR_RETURN(end, add_no_op(x.call, "output_control", std::move(after)));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const EdgeType type = results[i].node->output_types()[results[i].index];
      if (!effects.empty() || type.is_ref) {
        std::vector<Node*> after;
        if (!effects.empty()) after.push_back(end);
        TUTTI_ASSIGN_OR_RETURN(Node * result,
                               add_identity(x.call, str_cat("output_", i), results[i], std::move(after)));
        results[i] = result->output();
      }
      values_[{&x.call, static_cast<int>(i)}] = results[i];
    }
    ends_[&x.call] = {x.begin, end};
    // They ran with the call, whether or not anybody read its results.
    if (!effects.empty()) body_.targets.push_back(end);
    return {};
  }

  // Results of one call may be results of another. Shortens the way for the next who asks.
  Output final_value(Output value) {
    Output last = value;
    for (auto it = values_.find(last); it != values_.end(); it = values_.find(last)) last = it->second;
    while (!(value == last)) value = std::exchange(values_[value], last);
    return last;
  }

  // What to wait for in place of a call: its end, or where nobody waited at first, what it gave and began with.
  void append_ends(Node* node, std::vector<Node*>* ends) {
    auto it = ends_.find(node);
    if (it == ends_.end()) {
      ends->push_back(node);
    } else if (it->second.end != nullptr) {
      ends->push_back(it->second.end);
    } else {
      if (it->second.begin != nullptr) ends->push_back(it->second.begin);
      for (int i = 0; i < node->num_outputs(); ++i) ends->push_back(final_value(node->output(i)).node);
    }
  }

  void reroute() {
    graph_.rewrite_inputs([this](Output input) { return final_value(input); });
    auto replace = [this](std::span<Node* const> nodes) {
      std::vector<Node*> replaced;
      for (Node* node : nodes) append_ends(node, &replaced);
      return replaced;
    };
    for (Node* node : graph_.nodes()) graph_.set_control_inputs(*node, replace(node->control_inputs()));
    std::vector<Node*> targets = replace(body_.targets);
    std::sort(targets.begin(), targets.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    body_.targets = std::move(targets);
    for (Node* call : replaced_) graph_.remove(*call);
  }

  FunctionBody& body_;
  Graph& graph_;
  std::deque<Call> calls_;
  std::unordered_set<const Node*> waited_for_;
  std::unordered_map<Output, Output, OutputHash> values_;  // of replaced calls
  struct Ends {
    Node* begin;
    Node* end;
  };
  std::unordered_map<const Node*, Ends> ends_;  // of replaced calls; null where there is no such node
  std::vector<Node*> replaced_;
  std::size_t inlined_nodes_ = 0;
  std::size_t written_nodes_ = 0;            // of the body and of each function in it, once
  std::unordered_set<std::string> inlined_;  // functions that were put in the place of a call
};

}  // namespace

Status inline_functions(FunctionBody& body) { return Inliner(body).run(); }

}  // namespace tutti

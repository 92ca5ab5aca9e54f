#include "tutti/graph/internal/graph_importer.h"

#include <algorithm>
#include <queue>
#include <set>

#include "proto/graph.pb.h"
#include "tutti/graph/attr_codec.h"
#include "tutti/graph/function.h"
#include "tutti/graph/internal/arg_ranges.h"
#include "tutti/graph/internal/node_def_writer.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

using tensorflow::NodeDef;

// A node as it is called before it exists.
std::string describe(const NodeDef& def) { return str_cat(printable(def.op()), " \"", printable(def.name()), "\""); }

// An input's text in parts: "^node", "node", "node:2", "node:product:0".
struct InputText {
  std::string_view node;
  std::string_view rest;  // after the first ':'
  bool is_control = false;
  bool has_rest = false;
};

InputText split_input(std::string_view text) {
  InputText parts;
  parts.is_control = text.starts_with('^');
  if (parts.is_control) text.remove_prefix(1);
  std::size_t colon = text.find(':');
  parts.node = text.substr(0, colon);
  parts.has_rest = colon != std::string_view::npos;
  if (parts.has_rest) parts.rest = text.substr(colon + 1);
  return parts;
}

// The way round of a v1 loop, as is_back_edge of graph.h.
bool is_back_edge(const NodeDef& from, const NodeDef& to, const InputText& input) {
  const bool merge = to.op() == "Merge" || to.op() == "RefMerge";
  const bool next = from.op() == "NextIteration" || from.op() == "RefNextIteration";
  return merge && next && !input.is_control;
}

// `text` as a number below `count`.
Result<int> parse_index(std::string_view text, std::size_t count) {
  std::int64_t index = 0;
  if (!parse_int64(text, &index)) return invalid_argument("\"", printable(text), "\" is no number");
  if (index < 0 || index >= static_cast<std::int64_t>(count)) {
    return invalid_argument("there are ", count, " tensors, no number ", index);
  }
  return static_cast<int>(index);
}

// "product", "product:1": of a node's output arguments.
Result<std::vector<Output>> outputs_by_arg(Node& node, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::vector<ArgRange> ranges = arg_ranges(node.op().outputs, node.attrs());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (node.op().outputs[i].name != name) continue;
    if (colon != std::string_view::npos) {
      TUTTI_ASSIGN_OR_RETURN(int index, parse_index(text.substr(colon + 1), ranges[i].count));
      return std::vector<Output>{node.output(ranges[i].begin + index)};
    }
    std::vector<Output> outputs;
    for (int k = 0; k < ranges[i].count; ++k) outputs.push_back(node.output(ranges[i].begin + k));
    return outputs;
  }
  return invalid_argument(node.describe(), " has no output called \"", printable(name), "\"");
}

using NameIndex = std::unordered_map<std::string_view, int>;

// Every node that still waits waits for one that waits: walking back leads into the cycle.
int node_on_cycle(const GraphImporter::NodeDefs& defs, const NameIndex& index, const std::vector<int>& pending) {
  auto waiting = std::find_if(pending.begin(), pending.end(), [](int n) { return n > 0; });
  int at = static_cast<int>(waiting - pending.begin());
  std::vector<bool> seen(defs.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    int next = at;
    for (const std::string& text : defs[at].input()) {
      const InputText input = split_input(text);
      auto it = index.find(input.node);
      if (it == index.end() || pending[it->second] == 0 || is_back_edge(defs[it->second], defs[at], input)) continue;
      next = it->second;
    }
    at = next;
  }
  return at;
}

}  // namespace

// The order in which nodes can be added, and the loop edges that are left for later.
struct GraphImporter::Order {
  struct BackEdge {
    int def;
    int input;
  };
  std::vector<int> defs;
  std::vector<BackEdge> back_edges;
};

GraphImporter::GraphImporter(Graph& graph, Dialect dialect)
    : graph_(graph), dialect_(dialect), first_id_(graph.id_limit()), old_origin_(graph.origin_) {}

GraphImporter::~GraphImporter() {
  if (committed_) return;
  for (int id = first_id_; id < graph_.id_limit(); ++id) {
    if (Node* node = graph_.node_by_id(id)) graph_.remove(*node);
  }
  graph_.nodes_.resize(first_id_);
  graph_.origin_ = old_origin_;
  for (const std::string& name : added_functions_) graph_.library_->remove(name);
  for (auto it = old_gradients_.rbegin(); it != old_gradients_.rend(); ++it) {
    if (it->second.empty()) {
      graph_.library_->gradients_.erase(it->first);
    } else {
      graph_.library_->set_gradient(it->first, it->second);
    }
  }
}

Status GraphImporter::add_functions(const tensorflow::FunctionDefLibrary& library) {
  FunctionLibrary& functions = *graph_.library_;
  for (const auto& function : library.function()) {
    if (graph_.ops().find(function.signature().name()) != nullptr) {
      return invalid_argument("function \"", printable(function.signature().name()), "\" has the name of an op");
    }
    const bool had = functions.contains(function.signature().name());
    TUTTI_RETURN_IF_ERROR(functions.add_serialized(serialize(function)));
    if (!had) added_functions_.push_back(function.signature().name());
  }
  for (const auto& gradient : library.gradient()) {
    old_gradients_.emplace_back(gradient.function_name(), functions.gradient_of(gradient.function_name()));
    functions.set_gradient(gradient.function_name(), gradient.gradient_func());
  }
  return {};
}

Status GraphImporter::add_nodes(NodeDefs& defs) {
  Order order;
  TUTTI_RETURN_IF_ERROR(find_order(defs, &order));
  for (int i : order.defs) TUTTI_RETURN_IF_ERROR(add_node(*defs.Mutable(i)));
  return close_loops(defs, order);
}

void GraphImporter::keep_rest(tensorflow::GraphDef def) {
  def.clear_node();
  if (def.has_library()) {
    def.mutable_library()->clear_function();
    auto& gradients = *def.mutable_library()->mutable_gradient();
    gradients.erase(
        std::remove_if(gradients.begin(), gradients.end(),
                       [this](const auto& entry) { return graph_.library_->contains(entry.function_name()); }),
        gradients.end());
  }
  tensorflow::GraphDef merged;
  Status status = parse_message(graph_.origin_, "origin", &merged);
  TUTTI_CHECK(status.ok(), status);
  if (serialize(merged) == serialize(def)) return;
  merged.MergeFrom(def);
  // Clients send the whole library with every addition: keep one of each.
  auto& registered = *merged.mutable_library()->mutable_registered_gradients();
  std::set<std::string> seen;
  int kept = 0;
  for (int i = 0; i < registered.size(); ++i) {
    if (seen.insert(serialize(registered[i])).second) registered.SwapElements(kept++, i);
  }
  registered.DeleteSubrange(kept, registered.size() - kept);
  if (merged.library().ByteSizeLong() == 0) merged.clear_library();
  graph_.origin_ = serialize(merged);
}

Status GraphImporter::index_names(const NodeDefs& defs, std::unordered_map<std::string_view, int>* index) const {
  index->reserve(defs.size());
  for (int i = 0; i < defs.size(); ++i) {
    const std::string& name = defs[i].name();
    TUTTI_RETURN_IF_ERROR(check_node_name(name));
    if (!index->emplace(name, i).second || is_known(name)) {
      return invalid_argument("node name \"", printable(full_name(name)), "\" is used twice");
    }
  }
  return {};
}

bool GraphImporter::is_known(std::string_view name) const {
  return defined_.contains(std::string(name)) || graph_.find(full_name(name)) != nullptr;
}

// Kahn's algorithm over names; of the nodes that are ready the first in the message goes first.
Status GraphImporter::find_order(const NodeDefs& defs, Order* order) const {
  std::unordered_map<std::string_view, int> index;
  TUTTI_RETURN_IF_ERROR(index_names(defs, &index));
  std::vector<int> pending(defs.size(), 0);
  std::vector<std::vector<int>> readers(defs.size());
  for (int i = 0; i < defs.size(); ++i) {
    for (int k = 0; k < defs[i].input_size(); ++k) {
      const InputText input = split_input(defs[i].input(k));
      auto it = index.find(input.node);
      if (it == index.end()) {
        if (is_known(input.node)) continue;
        return invalid_argument(describe(defs[i]), ": input ", k, " is \"", printable(defs[i].input(k)),
                                "\", and there is no such node");
      }
      if (is_back_edge(defs[it->second], defs[i], input)) {
        order->back_edges.push_back({i, k});
        continue;
      }
      ++pending[i];
      readers[it->second].push_back(i);
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < defs.size(); ++i) {
    if (pending[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    order->defs.push_back(next);
    for (int reader : readers[next]) {
      if (--pending[reader] == 0) ready.push(reader);
    }
  }
  if (static_cast<int>(order->defs.size()) == defs.size()) return {};

  return invalid_argument(describe(defs[node_on_cycle(defs, index, pending)]), ": the node is on a cycle");
}

Status GraphImporter::add_node(NodeDef& def) {
  std::shared_ptr<const OpDef> function = graph_.library_->signature(def.op());
  const OpDef* op = function ? function.get() : graph_.ops_->find(def.op());
  // A graph may hold it as long as no step needs it. A function says there what it is called with.
  const OpDef unknown{.name = def.op(), .is_unknown = true};
  if (op == nullptr && dialect_ == Dialect::kGraph) op = &unknown;
  if (op == nullptr) {
    return not_found("node \"", printable(full_name(def.name())), "\": unknown op \"", printable(def.op()), "\"");
  }
  NodeSpec spec;
  spec.op = def.op();
  spec.name = full_name(def.name());
  spec.device = def.device();
  Status status = read_inputs(def, &spec);
  if (status.ok()) status = read_attrs(def, *op, &spec.attrs);
  if (!status.ok()) return status.with_context(describe(def));
  if (op->is_unknown) return graph_.add_unknown(std::move(spec), make_origin(*op, &def)).status();
  std::shared_ptr<const std::string> origin;
  if (dialect_ == Dialect::kGraph) origin = make_origin(*op, &def);
  Result<Node*> node = graph_.add_exact(std::move(spec), std::move(origin));
  return node.ok() ? Status() : node.status();
}

Status GraphImporter::read_inputs(const NodeDef& def, NodeSpec* spec) const {
  for (int k = 0; k < def.input_size(); ++k) {
    const InputText input = split_input(def.input(k));
    if (input.is_control) {
      if (auto it = defined_.find(std::string(input.node)); it != defined_.end()) {
        for (const Output& value : it->second) spec->control_inputs.push_back(value.node);
      } else {
        spec->control_inputs.push_back(graph_.find(full_name(input.node)));
      }
      continue;
    }
    if (!spec->control_inputs.empty()) {
      return invalid_argument("input ", k, " \"", printable(def.input(k)), "\" comes after a control input");
    }
    if (!is_known(input.node)) {
      spec->inputs.emplace_back();  // a loop's way back; close_loops gives it
      continue;
    }
    Result<std::vector<Output>> values = resolve(def.input(k));
    if (!values.ok()) {
      return values.status().with_context(str_cat("input ", k, " \"", printable(def.input(k)), "\""));
    }
    spec->inputs.insert(spec->inputs.end(), values->begin(), values->end());
  }
  return {};
}

Result<std::vector<Output>> GraphImporter::resolve(std::string_view text) const {
  const InputText input = split_input(text);
  if (auto it = defined_.find(std::string(input.node)); it != defined_.end()) {
    if (!input.has_rest) return it->second;
    TUTTI_ASSIGN_OR_RETURN(int index, parse_index(input.rest, it->second.size()));
    return std::vector<Output>{it->second[index]};
  }
  Node* node = graph_.find(full_name(input.node));
  if (node == nullptr) return invalid_argument("there is no node \"", printable(input.node), "\"");
  if (dialect_ == Dialect::kFunction && input.has_rest) return outputs_by_arg(*node, input.rest);
  if (std::int64_t wanted = 0; node->op().is_unknown && parse_int64(input.has_rest ? input.rest : "0", &wanted)) {
    TUTTI_RETURN_IF_ERROR(Graph::grow_outputs(*node, wanted));
  }
  TUTTI_ASSIGN_OR_RETURN(int index, parse_index(input.has_rest ? input.rest : "0", node->num_outputs()));
  return std::vector<Output>{node->output(index)};
}

Status GraphImporter::read_attrs(const NodeDef& def, const OpDef& op, AttrMap* attrs) {
  for (const auto& [name, proto] : def.attr()) {
    const bool declared = op.find_attr(name) != nullptr;
    if (!declared && !name.starts_with('_')) continue;  // of a newer signature
    Result<AttrValue> value = decode_attr(proto, budget_);
    if (value.ok() && placeholders_ != nullptr) value = substitute(*std::move(value));
    if (!value.ok()) {
      if (!declared) continue;  // an annotation that we need not understand
      return value.status().with_context(str_cat("attribute ", printable(name)));
    }
    attrs->emplace(name, *std::move(value));
  }
  auto it = attrs->find("_class");
  if (it == attrs->end() || prefix_.empty()) return {};
  if (const auto* classes = it->second.get<std::vector<std::string>>()) {
    std::vector<std::string> renamed = *classes;
    for (std::string& entry : renamed) {
      if (entry.starts_with("loc:@")) entry.insert(5, prefix_);
    }
    it->second = std::move(renamed);
  }
  return {};
}

// Values of functions' attributes go in by name, also into those of functions that the body passes on.
Result<AttrValue> GraphImporter::substitute(AttrValue value) const {
  if (const auto* placeholder = value.get<AttrPlaceholder>()) {
    auto it = placeholders_->find(placeholder->name);
    if (it != placeholders_->end()) return it->second;
    return invalid_argument("the function has no attribute \"", printable(placeholder->name), "\"");
  }
  if (const auto* function = value.get<FunctionRef>()) {
    TUTTI_ASSIGN_OR_RETURN(FunctionRef bound, substitute(*function));
    return AttrValue(std::move(bound));
  }
  if (value.kind() != "list(func)") return value;
  std::vector<FunctionRef> functions;
  for (const FunctionRef& function : *value.get<std::vector<FunctionRef>>()) {
    TUTTI_ASSIGN_OR_RETURN(FunctionRef bound, substitute(function));
    functions.push_back(std::move(bound));
  }
  return AttrValue(std::move(functions));
}

Result<FunctionRef> GraphImporter::substitute(FunctionRef function) const {
  if (!function.attrs) return function;
  auto attrs = std::make_shared<AttrMap>();
  for (const auto& [name, value] : *function.attrs) {
    TUTTI_ASSIGN_OR_RETURN((*attrs)[name], substitute(value));
  }
  function.attrs = std::move(attrs);
  return function;
}

Status GraphImporter::close_loops(const NodeDefs& defs, const Order& order) {
  for (const Order::BackEdge& edge : order.back_edges) {
    const NodeDef& def = defs[edge.def];
    Node* merge = graph_.find(full_name(def.name()));
    Result<std::vector<Output>> values = resolve(def.input(edge.input));
    if (!values.ok()) return values.status().with_context(describe(def));
    if (values->size() != 1) return invalid_argument(describe(def), ": input ", edge.input, " is a list");
    TUTTI_RETURN_IF_ERROR(graph_.set_input(*merge, edge.input, values->front()));
  }
  return {};
}

}  // namespace tutti

#include "tutti/graph/graph.h"

#include <algorithm>
#include <cctype>
#include <queue>
#include <unordered_set>

#include "tutti/core/device_name.h"
#include "tutti/graph/function.h"
#include "tutti/graph/shape_inference.h"

namespace tutti {
namespace {

// Longer names are refused: every message, plan and rendezvous key carries them.
constexpr std::size_t kMaxNameBytes = 1 << 16;

bool is_name_start(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || c == '>' || c == '/' || c == '\\' || c == '-'; }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Keeps the first of each.
std::vector<Node*> without_repeats(std::vector<Node*> nodes) {
  if (nodes.size() < 2) return nodes;
  std::unordered_set<Node*> seen;
  std::erase_if(nodes, [&seen](Node* node) { return !seen.insert(node).second; });
  return nodes;
}

// `inner` over `outer`, part by part.
Result<std::string> merge_devices(std::string_view outer, std::string_view inner) {
  if (inner.empty()) return std::string(outer);
  TUTTI_ASSIGN_OR_RETURN(DeviceName merged, DeviceName::parse(outer));
  TUTTI_ASSIGN_OR_RETURN(DeviceName inner_name, DeviceName::parse(inner));
  merged.override_with(inner_name);
  return merged.to_string();
}

std::string input_shapes_text(const Node& node) {
  std::vector<std::string> shapes;
  for (const Output& input : node.inputs()) shapes.push_back(input ? input.shape().to_string() : "<open>");
  return str_join(shapes, ", ");
}

Status check_own(const Graph& graph, const Node* node, std::string_view what) {
  if (node == nullptr) return invalid_argument(what, " is missing");
  if (&node->graph() != &graph) return invalid_argument(what, " \"", printable(node->name()), "\" is of another graph");
  return {};
}

// That `value` may be input `index` of a node of `graph`, types apart.
Status check_value(const Graph& graph, Output value, std::size_t index) {
  TUTTI_RETURN_IF_ERROR(check_own(graph, value.node, str_cat("input ", index)));
  if (value.index >= 0 && value.index < value.node->num_outputs()) return {};
  return invalid_argument("input ", index, " is output ", value.index, " of ", value.node->describe(), ", which has ",
                          value.node->num_outputs(), " outputs");
}

// What a node waits for when nodes are put in order: its inputs and control inputs, less back edges.
template <typename Visit>
void for_each_predecessor(const Node& node, Visit visit) {
  for (const Output& input : node.inputs()) {
    if (input && !is_back_edge(*input.node, node)) visit(input.node);
  }
  for (Node* before : node.control_inputs()) visit(before);
}

// Walks back over nodes that wait until one comes again. REQUIRES: each node that waits waits for one that waits.
std::string describe_cycle(Node* start, const std::vector<int>& pending) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> path;
  Node* node = start;
  while (seen.insert(node).second) {
    path.push_back(node);
    Node* next = nullptr;
    for_each_predecessor(*node, [&](Node* before) {
      if (pending[before->id()] > 0) next = before;
    });
    node = next;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::reverse(path.begin(), path.end());
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < path.size() && i < kShown; ++i) text += str_cat(printable(path[i]->name()), " -> ");
  if (path.size() > kShown) text += str_cat("... (", path.size(), " nodes) -> ");
  return str_cat(text, printable(path.front()->name()));
}

}  // namespace

Graph& Output::graph() const { return node->graph(); }
DType Output::dtype() const { return node->output_types()[index].dtype; }
const PartialShape& Output::shape() const { return node->output_shape(index); }
std::string Output::name() const { return str_cat(node->name(), ":", index); }

const AttrValue* Node::find_attr(std::string_view name) const {
  auto it = attrs_.find(name);
  return it == attrs_.end() ? nullptr : &it->second;
}

Status Node::check_known() const {
  if (!op_->is_unknown) return {};
  return not_found("node \"", printable(name_), "\": unknown op \"", printable(op_name()), "\"");
}

std::string Node::describe() const { return str_cat(op_->name, " \"", printable(name_), "\""); }

bool is_back_edge(const Node& from, const Node& to) {
  if (!to.op().has(kControlFlow) || !from.op().has(kControlFlow)) return false;
  return to.op_name().ends_with("Merge") && from.op_name().ends_with("NextIteration");
}

Status check_node_name(std::string_view name) {
  if (name.empty()) return invalid_argument("a node has no name");
  if (name.size() > kMaxNameBytes) {
    return invalid_argument("node name of ", name.size(), " bytes is over the limit of ", kMaxNameBytes, ": \"",
                            printable(name, 40), "\"");
  }
  if (is_name_start(name[0]) && std::all_of(name.begin(), name.end(), is_name_char)) return {};
  return invalid_argument("node name \"", printable(name), "\" must match [A-Za-z0-9.][A-Za-z0-9_>./\\-]*");
}

Graph::Graph(std::shared_ptr<const OpRegistry> ops) : Graph(std::move(ops), std::make_shared<FunctionLibrary>()) {}

Graph::Graph(std::shared_ptr<const OpRegistry> ops, std::shared_ptr<FunctionLibrary> library)
    : ops_(std::move(ops)), library_(std::move(library)) {}

Graph::~Graph() = default;

Result<Node*> Graph::add_node(NodeSpec spec) {
  const bool exact = spec.name.ends_with('/');
  if (exact) {
    spec.name.pop_back();
  } else {
    const std::string base = spec.name.empty() ? spec.op : spec.name;
    // Before it is made unique: a bad name must not be counted.
    TUTTI_RETURN_IF_ERROR(check_node_name(base));
    spec.name = unique_name(base);
  }
  if (Status status = apply_device_scopes(spec); !status.ok()) {
    return status.with_context(str_cat(spec.op, " \"", printable(spec.name), "\""));
  }
  apply_scopes(spec);
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, make_node(std::move(spec), false));
  return insert(std::move(node));
}

// From the inside out: what a node has so far is stronger than what a scope says.
Status Graph::apply_device_scopes(NodeSpec& spec) const {
  for (auto scope = device_scopes_.rbegin(); scope != device_scopes_.rend(); ++scope) {
    if (scope->function) {
      try {
        spec.device = scope->function(spec);
      } catch (const Error& error) {
        return error.status();
      }
      TUTTI_RETURN_IF_ERROR(DeviceName::parse(spec.device).status());
    } else {
      TUTTI_ASSIGN_OR_RETURN(spec.device, merge_devices(scope->device, spec.device));
    }
    if (scope->cancels) break;
  }
  return {};
}

// Control dependencies and colocation.
void Graph::apply_scopes(NodeSpec& spec) {
  auto is_input = [&spec](const Node* node) {
    return std::any_of(spec.inputs.begin(), spec.inputs.end(), [node](const Output& in) { return in.node == node; });
  };
  for (const std::vector<Node*>& scope : control_scopes_) {
    for (Node* node : scope) {
      if (!is_input(node)) spec.control_inputs.push_back(node);
    }
  }
  if (colocation_scopes_.empty()) return;
  std::vector<std::string> classes;
  if (auto it = spec.attrs.find("_class"); it != spec.attrs.end()) {
    if (const auto* given = it->second.get<std::vector<std::string>>()) classes = *given;
  }
  const std::string& group = colocation_scopes_.back();
  if (std::find(classes.begin(), classes.end(), group) == classes.end()) classes.push_back(group);
  spec.attrs["_class"] = std::move(classes);
}

Result<Node*> Graph::add_exact(NodeSpec spec, std::shared_ptr<const std::string> origin) {
  TUTTI_RETURN_IF_ERROR(check_node_name(spec.name));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, make_node(std::move(spec), true));
  node->origin_ = std::move(origin);
  return insert(std::move(node));
}

Result<Node*> Graph::add_unknown(NodeSpec spec, std::shared_ptr<const std::string> origin) {
  TUTTI_RETURN_IF_ERROR(check_node_name(spec.name));
  std::unique_ptr<Node> node(new Node());
  node->graph_ = this;
  node->name_ = std::move(spec.name);
  auto op = std::make_shared<OpDef>();
  op->name = std::move(spec.op);
  op->traits = kStateful;
  op->is_unknown = true;
  node->op_ = op.get();
  node->owned_op_ = std::move(op);
  TUTTI_ASSIGN_OR_RETURN(node->input_types_, types_of(spec.inputs, /*open=*/false));
  node->inputs_ = std::move(spec.inputs);
  node->control_inputs_ = without_repeats(std::move(spec.control_inputs));
  node->attrs_ = std::move(spec.attrs);
  node->requested_device_ = std::move(spec.device);
  node->origin_ = std::move(origin);
  TUTTI_RETURN_IF_ERROR(grow_outputs(*node, 0));
  return insert(std::move(node));
}

Status Graph::grow_outputs(Node& node, std::int64_t last) {
  constexpr std::int64_t kMaxOutputs = 1024;
  if (last >= kMaxOutputs) {
    return invalid_argument("there is no output ", last, ": a node of an unknown op has at most ", kMaxOutputs);
  }
  if (last < node.num_outputs()) return {};
  node.output_types_.resize(static_cast<std::size_t>(last) + 1);
  node.output_shapes_.resize(node.output_types_.size(), PartialShape::unknown());
  return {};
}

Result<std::unique_ptr<Node>> Graph::make_node(NodeSpec spec, bool open) {
  std::unique_ptr<Node> node(new Node());
  node->graph_ = this;
  node->name_ = std::move(spec.name);
  node->owned_op_ = library_->signature(spec.op);
  node->op_ = node->owned_op_ ? node->owned_op_.get() : ops_->find(spec.op);
  if (node->op_ == nullptr) {
    return not_found("node \"", printable(node->name_), "\": unknown op \"", printable(spec.op), "\"");
  }
  Status status = fill_node(*node, std::move(spec), open);
  if (!status.ok()) return status.with_context(node->describe());
  return node;
}

Status Graph::fill_node(Node& node, NodeSpec spec, bool open) const {
  TUTTI_ASSIGN_OR_RETURN(std::vector<EdgeType> given, types_of(spec.inputs, open));
  for (Node* before : spec.control_inputs) TUTTI_RETURN_IF_ERROR(check_own(*this, before, "control input"));
  TUTTI_RETURN_IF_ERROR(infer_attrs(*node.op_, given, &spec.attrs));
  TUTTI_RETURN_IF_ERROR(complete_attrs(*node.op_, &spec.attrs));
  TUTTI_RETURN_IF_ERROR(resolve_types(*node.op_, spec.attrs, &node.input_types_, &node.output_types_));
  if (node.input_types_.size() != given.size()) {
    return invalid_argument("takes ", node.input_types_.size(), " inputs, got ", given.size());
  }
  node.attrs_ = std::move(spec.attrs);
  node.inputs_ = std::move(spec.inputs);
  for (int i = 0; i < static_cast<int>(given.size()); ++i) {
    if (!node.inputs_[i]) continue;
    give_type(node.inputs_[i], node.input_types_[i]);
    TUTTI_RETURN_IF_ERROR(check_input(node, i, node.inputs_[i]));
  }
  node.control_inputs_ = without_repeats(std::move(spec.control_inputs));
  node.requested_device_ = std::move(spec.device);
  return infer_shapes(node);
}

// Of values that are to be inputs. An open one has no type yet.
Result<std::vector<EdgeType>> Graph::types_of(const std::vector<Output>& values, bool open) const {
  std::vector<EdgeType> types;
  types.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] && open) {
      types.emplace_back();
      continue;
    }
    TUTTI_RETURN_IF_ERROR(check_value(*this, values[i], i));
    types.push_back(values[i].node->output_types()[values[i].index]);
  }
  return types;
}

Result<Node*> Graph::insert(std::unique_ptr<Node> node) {
  auto [it, added] = by_name_.try_emplace(node->name_, node.get());
  if (!added) return already_exists("node name \"", printable(node->name_), "\" is taken");
  node->id_ = id_limit();
  nodes_.push_back(std::move(node));
  ++num_nodes_;
  return it->second;
}

void Graph::give_type(Output value, EdgeType type) {
  EdgeType& known = value.node->output_types_[static_cast<std::size_t>(value.index)];
  if (value.node->op().is_unknown && known.dtype == DType::kInvalid) known = type;
}

// A plain input reads a reference's value; a reference input needs a reference.
Status Graph::check_input(const Node& node, int index, Output value) const {
  const EdgeType want = node.input_types_[index];
  const EdgeType got = value.node->output_types()[value.index];
  if (got.dtype == want.dtype && (got.is_ref || !want.is_ref)) return {};
  return invalid_argument("input ", index, " must be ", want, ", got ", got, " from \"", printable(value.node->name()),
                          ":", value.index, "\"");
}

Status Graph::infer_shapes(Node& node) const {
  node.output_shapes_.assign(node.output_types_.size(), PartialShape::unknown());
  // A loop's Merge is made before its second input exists, whose shape may differ from the first one's.
  const bool open = std::any_of(node.inputs_.begin(), node.inputs_.end(), [](const Output& in) { return !in; });
  if (open || !node.op_->shape) return {};
  ShapeContext context(node);
  Status status = node.op_->shape(context);
  if (!status.ok()) {
    return Status(status.code(), str_cat(status.message(), " (input shapes: ", input_shapes_text(node), ")"));
  }
  node.output_shapes_ = context.take_outputs();
  return {};
}

Node* Graph::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

Result<Output> Graph::find_output(std::string_view tensor_name) const {
  std::string_view name = tensor_name;
  std::int64_t index = 0;
  if (std::size_t colon = tensor_name.rfind(':'); colon != std::string_view::npos) {
    name = tensor_name.substr(0, colon);
    if (!parse_int64(tensor_name.substr(colon + 1), &index)) {
      return invalid_argument("tensor name \"", printable(tensor_name), "\" must be \"node\" or \"node:number\"");
    }
  }
  Node* node = find(name);
  if (node == nullptr) return not_found("tensor \"", printable(tensor_name), "\": the graph has no such node");
  if (index < 0 || index >= node->num_outputs()) {
    TUTTI_RETURN_IF_ERROR(node->check_known());
    return invalid_argument("tensor \"", printable(tensor_name), "\": ", node->describe(), " has ", node->num_outputs(),
                            " outputs");
  }
  return Output(node, static_cast<int>(index));
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> nodes;
  nodes.reserve(num_nodes_);
  for (const auto& node : nodes_) {
    if (node) nodes.push_back(node.get());
  }
  return nodes;
}

ScopeGuard Graph::name_scope(std::string_view name) {
  std::string scope;
  if (name.ends_with('/')) {
    scope = name.substr(0, name.size() - 1);  // an existing scope, entered again
  } else if (!name.empty()) {
    throw_if_error(check_node_name(name));
    scope = unique_name(name);
  }
  name_scopes_.push_back(std::move(scope));
  return ScopeGuard([this] { name_scopes_.pop_back(); });
}

std::string Graph::current_name_scope() const { return name_scopes_.empty() ? "" : name_scopes_.back(); }

ScopeGuard Graph::device_scope(std::string_view device) {
  const DeviceName name = DeviceName::parse(device).value_or_throw();
  device_scopes_.push_back({.device = name.to_string(), .cancels = device.empty()});
  return ScopeGuard([this] { device_scopes_.pop_back(); });
}

ScopeGuard Graph::device_scope(DeviceFunction function) {
  device_scopes_.push_back({.function = std::move(function)});
  return ScopeGuard([this] { device_scopes_.pop_back(); });
}

ScopeGuard Graph::control_dependencies(std::vector<Node*> nodes) {
  for (const Node* node : nodes) throw_if_error(check_own(*this, node, "control dependency"));
  control_scopes_.push_back(std::move(nodes));
  return ScopeGuard([this] { control_scopes_.pop_back(); });
}

// As in TensorFlow, colocation is stronger than the device scopes around it.
ScopeGuard Graph::colocate_with(const Node& node) {
  throw_if_error(check_own(*this, &node, "colocation"));
  colocation_scopes_.push_back(str_cat("loc:@", node.name()));
  device_scopes_.push_back({.device = node.requested_device(), .cancels = true});
  return ScopeGuard([this] {
    colocation_scopes_.pop_back();
    device_scopes_.pop_back();
  });
}

std::string Graph::unique_name(std::string_view base) {
  const std::string scope = current_name_scope();
  const std::string name = scope.empty() ? std::string(base) : str_cat(scope, "/", base);
  const std::string key = lower_case(name);
  auto taken = [this](const std::string& candidate, const std::string& candidate_key) {
    return name_counts_.contains(candidate_key) || by_name_.contains(candidate);
  };
  if (!taken(name, key)) {
    name_counts_[key] = 1;
    return name;
  }
  int next = std::max(1, name_counts_[key]);
  std::string candidate;
  std::string candidate_key;
  do {
    candidate = str_cat(name, "_", next);
    candidate_key = str_cat(key, "_", next);
    ++next;
  } while (taken(candidate, candidate_key));
  name_counts_[key] = next;
  name_counts_[candidate_key] = 1;
  return candidate;
}

Status Graph::set_input(Node& node, int index, Output value) {
  if (index < 0 || index >= static_cast<int>(node.inputs_.size())) {
    return invalid_argument(node.describe(), " has ", node.inputs_.size(), " inputs, no input ", index);
  }
  Status status = check_value(*this, value, static_cast<std::size_t>(index));
  if (status.ok()) {
    give_type(value, node.input_types_[index]);
    status = check_input(node, index, value);
  }
  if (!status.ok()) return status.with_context(node.describe());
  node.inputs_[index] = value;
  return {};
}

void Graph::replace_uses(Output from, Output to) {
  rewrite_inputs([&](Output input) { return input == from ? to : input; });
}

void Graph::rewrite_inputs(const std::function<Output(Output)>& map) {
  for (const auto& node : nodes_) {
    if (!node) continue;
    for (Output& input : node->inputs_) {
      if (input) input = map(input);
    }
  }
}

void Graph::add_control_input(Node& node, Node& before) {
  auto& all = node.control_inputs_;
  if (std::find(all.begin(), all.end(), &before) == all.end()) all.push_back(&before);
}

void Graph::set_control_inputs(Node& node, std::vector<Node*> before) {
  node.control_inputs_ = without_repeats(std::move(before));
}

void Graph::set_attr(Node& node, std::string_view name, AttrValue value) {
  node.attrs_.insert_or_assign(std::string(name), std::move(value));
}

Result<Node*> Graph::copy_node(const Node& source, std::string name) {
  std::unique_ptr<Node> node(new Node(source));
  node->graph_ = this;
  node->name_ = std::move(name);
  node->control_inputs_.clear();
  std::fill(node->inputs_.begin(), node->inputs_.end(), Output());
  return insert(std::move(node));
}

Status Graph::rebuild(Node& node, NodeSpec spec) {
  spec.name = node.name_;
  if (spec.device.empty()) spec.device = node.requested_device_;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Node> made, make_node(std::move(spec), true));
  for (std::size_t i = 0; i < made->output_types_.size() && i < node.output_types_.size(); ++i) {
    if (made->output_types_[i].dtype != node.output_types_[i].dtype) {
      return invalid_argument(node.describe(), " rebuilt as ", made->op_name(), ": output ", i, " changes from ",
                              node.output_types_[i], " to ", made->output_types_[i]);
    }
    Result<PartialShape> merged = made->output_shapes_[i].merge(node.output_shapes_[i]);
    if (merged.ok()) made->output_shapes_[i] = *std::move(merged);
  }
  made->id_ = node.id_;
  made->assigned_device_ = std::move(node.assigned_device_);
  node = std::move(*made);
  return {};
}

void Graph::reinfer_shapes() {
  Result<std::vector<Node*>> order = topological_order();
  if (!order.ok()) return;  // nothing of a cyclic graph runs
  for (Node* node : *order) {
    if (node->inputs_.empty()) continue;
    bool in_loop = false;
    for (const Output& input : node->inputs_) in_loop = in_loop || (input && is_back_edge(*input.node, *node));
    if (!in_loop && infer_shapes(*node).ok()) continue;
    node->output_shapes_.assign(node->output_types_.size(), PartialShape::unknown());
  }
}

void Graph::remove(Node& node) {
  by_name_.erase(node.name_);
  --num_nodes_;
  nodes_[node.id_].reset();
}

std::vector<std::vector<Node*>> Graph::consumers() const {
  std::vector<std::vector<Node*>> readers(nodes_.size());
  auto add = [&readers](const Node* from, Node* to) {
    std::vector<Node*>& list = readers[from->id()];
    if (list.empty() || list.back() != to) list.push_back(to);  // one reader's edges come one after another
  };
  for (const auto& node : nodes_) {
    if (!node) continue;
    for (const Output& input : node->inputs_) {
      if (input) add(input.node, node.get());
    }
    for (Node* before : node->control_inputs_) add(before, node.get());
  }
  return readers;
}

// Kahn's algorithm; of the nodes that are ready the oldest goes first, so that a graph made in order keeps it.
Result<std::vector<Node*>> Graph::topological_order() const {
  std::vector<int> pending(nodes_.size(), 0);
  std::vector<std::vector<int>> readers(nodes_.size());
  for (const auto& node : nodes_) {
    if (!node) continue;
    for_each_predecessor(*node, [&](Node* before) {
      ++pending[node->id()];
      readers[before->id()].push_back(node->id());
    });
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const auto& node : nodes_) {
    if (node && pending[node->id()] == 0) ready.push(node->id());
  }
  std::vector<Node*> order;
  order.reserve(num_nodes_);
  while (!ready.empty()) {
    int id = ready.top();
    ready.pop();
    order.push_back(nodes_[id].get());
    for (int reader : readers[id]) {
      if (--pending[reader] == 0) ready.push(reader);
    }
  }
  if (static_cast<int>(order.size()) == num_nodes_) return order;
  for (const auto& node : nodes_) {
    if (node && pending[node->id()] > 0) {
      return invalid_argument("the graph has a cycle: ", describe_cycle(node.get(), pending));
    }
  }
  return internal_error("nodes left over without a cycle");
}

}  // namespace tutti

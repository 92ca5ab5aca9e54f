#include "tutti/runtime/internal/node_table.h"

#include <algorithm>
#include <unordered_map>

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/reference_aliases.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::internal {
namespace {

// The place of a boundary node among the body's own; one that a graph brought along is none of them.
Result<int> boundary_index(const Node& node, const std::vector<Node*>& own) {
  const auto index = node.attr<std::int64_t>("index");
  if (index < 0 || index >= static_cast<std::int64_t>(own.size()) || own[index] != &node) {
    return invalid_argument(node.describe(), ": ", node.op_name(), " ", index, " is none of the function's");
  }
  return static_cast<int>(index);
}

Result<NodeItem> make_item(const Node& node, const FunctionBody& body, KernelSource& kernels, NodeTable& table) {
  NodeItem item;
  item.node = &node;
  item.num_inputs = static_cast<int>(node.inputs().size());
  item.num_outputs = node.num_outputs();
  item.output_types_begin = static_cast<std::uint32_t>(table.output_types.size());
  for (const EdgeType& type : node.output_types()) table.output_types.push_back(type.dtype);
  table.has_control_flow |= node.op().has(kControlFlow);

  if (node.op_name() == "_Arg") {
    item.kind = NodeKind::kArg;
    TUTTI_ASSIGN_OR_RETURN(item.index, boundary_index(node, body.args));
    return item;
  }
  if (node.op_name() == "_Retval") {
    item.kind = NodeKind::kRetval;
    TUTTI_ASSIGN_OR_RETURN(item.index, boundary_index(node, body.retvals));
    return item;
  }
  if (node.op_name() == "NoOp") return item;

  Result<std::shared_ptr<Kernel>> made = kernels.kernel_for(node);
  if (!made.ok()) return table.marked(node, made.status());
  std::shared_ptr<Kernel> kernel = *std::move(made);
  item.kernel = kernel.get();
  item.kind = NodeKind::kKernel;
  if (kernel->may_block()) {
    item.kind = NodeKind::kAsyncKernel;
    item.async_kernel = dynamic_cast<AsyncKernel*>(kernel.get());
    if (item.async_kernel == nullptr)
      return internal_error(node.describe(), ": its kernel blocks but is not asynchronous");
    table.may_block = true;
  }
  table.kernels.push_back(std::move(kernel));
  return item;
}

std::string_view task_in(const Node& node, std::string_view attr) {
  const AttrValue* device = node.find_attr(attr);
  const std::string* name = device == nullptr ? nullptr : device->get<std::string>();
  return name == nullptr ? std::string_view() : task_of(*name);
}

// Whether the node's kernel must be given the value of a reference. Nodes that hand their input on take the reference
// itself, so that the kernel at the end sees what the variable holds when it runs, updates that it waited for included.
bool is_read_edge(const Node& node, int input, const ReferenceAliases& aliases) {
  return !node.input_types()[static_cast<std::size_t>(input)].is_ref && !hands_on(node, input) &&
         aliases.contains(node.input(input));
}

bool sends_elsewhere(const Node& node) {
  return node.op().has(kTransfer) && !node.inputs().empty() &&
         task_in(node, "send_device") != task_in(node, "recv_device");
}

}  // namespace

Result<NodeTable> NodeTable::create(FunctionBody body, const CompileOptions& options) {
  NodeTable table;
  table.mark_nodes = options.mark_nodes;
  table.num_args = static_cast<int>(body.args.size());
  table.num_results = static_cast<int>(body.retvals.size());
  TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, body.graph->topological_order());
  std::vector<int> item_of(body.graph->id_limit(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) item_of[order[i]->id()] = static_cast<int>(i);
  const ReferenceAliases aliases(*body.graph);
  for (Node* node : order) {
    TUTTI_ASSIGN_OR_RETURN(NodeItem item, make_item(*node, body, *options.kernels, table));
    std::vector<InputEdge> inputs;
    std::vector<int> control_inputs;
    for (Node* before : node->control_inputs()) control_inputs.push_back(item_of[before->id()]);
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      const Output from = node->inputs()[i];
      if (!from) return invalid_argument(node->describe(), ": input ", i, " is not connected");
      inputs.push_back({item_of[from.node->id()], from.index, is_read_edge(*node, static_cast<int>(i), aliases)});
    }
    if (sends_elsewhere(*node)) table.items[inputs[0].from].sent = true;
    table.items.push_back(item);
    table.inputs.push_back(std::move(inputs));
    table.control_inputs.push_back(std::move(control_inputs));
  }
  table.graph = std::move(body.graph);
  return table;
}

Status read_reference(const Value& value, Tensor* out) {
  if (!value.ref) return internal_error("a reference edge carries no variable");
  std::shared_ptr<Variable> variable = variable_in(*value.ref);
  if (variable) *out = variable->read();
  if (!variable && value.ref->get()) {
    // The handle of a queue, accumulator or table in its oldest form: two names.
    *out = Tensor::vector<std::string>({value.ref->container(), value.ref->name()});
    return {};
  }
  if (!variable || !out->has_value()) {
    return failed_precondition("Attempting to use uninitialized value ", value.ref->name());
  }
  return {};
}

Status dead_result(const NodeItem& retval) {
  return invalid_argument(retval.node->describe(), ": result ", retval.index,
                          " has no value: it lies on a branch that was not taken");
}

Status NodeTable::annotate(const Node& node, const Status& status) const {
  return marked(node, status.with_context(node.describe()));
}

Status NodeTable::marked(const Node& node, const Status& status) const {
  // An error that came from another task names the node at fault, which this one is not.
  constexpr std::string_view kMark = "[[{{node ";
  if (!mark_nodes || status.message().find(kMark) != std::string::npos) return status;
  return Status(status.code(), str_cat(status.message(), "\n\t ", kMark, printable(node.name()), "}}]]"));
}

}  // namespace tutti::internal

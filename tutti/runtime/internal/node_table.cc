#include "tutti/runtime/internal/node_table.h"

#include <unordered_map>

#include "tutti/kernels/resources/variable.h"

namespace tutti::internal {
namespace {

Result<NodeItem> make_item(const Node& node, KernelSource& kernels, NodeTable& table) {
  NodeItem item;
  item.node = &node;
  item.num_inputs = static_cast<int>(node.inputs().size());
  item.num_outputs = node.num_outputs();
  item.output_types_begin = static_cast<std::uint32_t>(table.output_types.size());
  for (const EdgeType& type : node.output_types()) table.output_types.push_back(type.dtype);
  table.has_control_flow |= node.op().has(kControlFlow);

  if (node.op_name() == "_Arg") {
    item.kind = NodeKind::kArg;
    item.index = static_cast<int>(node.attr<std::int64_t>("index"));
    table.num_args = std::max(table.num_args, item.index + 1);
    return item;
  }
  if (node.op_name() == "_Retval") {
    item.kind = NodeKind::kRetval;
    item.index = static_cast<int>(node.attr<std::int64_t>("index"));
    table.num_results = std::max(table.num_results, item.index + 1);
    return item;
  }
  if (node.op_name() == "NoOp") return item;

  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, kernels.kernel_for(node));
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

}  // namespace

Result<NodeTable> NodeTable::create(FunctionBody body, KernelSource& kernels) {
  NodeTable table;
  TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, body.graph->topological_order());
  std::vector<int> item_of(body.graph->id_limit(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) item_of[order[i]->id()] = static_cast<int>(i);
  for (Node* node : order) {
    TUTTI_ASSIGN_OR_RETURN(NodeItem item, make_item(*node, kernels, table));
    std::vector<InputEdge> inputs;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      const Output& from = node->inputs()[i];
      if (!from) return invalid_argument(node->describe(), ": input ", i, " is not connected");
      const bool is_read = from.node->output_types()[from.index].is_ref && !node->input_types()[i].is_ref;
      inputs.push_back({item_of[from.node->id()], from.index, is_read});
    }
    std::vector<int> control_inputs;
    for (Node* before : node->control_inputs()) control_inputs.push_back(item_of[before->id()]);
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

Status annotate(const Node& node, const Status& status) { return status.with_context(node.describe()); }

}  // namespace tutti::internal

namespace tutti {

Result<std::unique_ptr<Executable>> compile(FunctionBody body, const CompileOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(internal::NodeTable table, internal::NodeTable::create(std::move(body), *options.kernels));
  if (table.has_control_flow) return internal::compile_frames(std::move(table), options);
  return internal::compile_segments(std::move(table), options);
}

Status Executable::run_inline(StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) const {
  TUTTI_CHECK(!may_block());
  Status status;
  bool called = false;
  run(step, std::move(args), [&](Status s, std::vector<Tensor> r) {
    status = std::move(s);
    *results = std::move(r);
    called = true;
  });
  TUTTI_CHECK(called, "a run that cannot block did not end inline");
  return status;
}

}  // namespace tutti

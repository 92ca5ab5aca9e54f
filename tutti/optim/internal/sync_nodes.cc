#include "tutti/optim/internal/sync_nodes.h"

#include <map>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {

namespace {

// The name to give to a node that is to have the name of the scope that is open.
std::string scope_itself(const Graph& graph) { return graph.current_name_scope() + "/"; }

Output ints(Graph& graph, std::vector<std::int32_t> values, const std::string& name) {
  return constant(graph, Tensor::vector<std::int32_t>(values), name);
}

// x[begin:end] of a vector; the masks leave that end open.
Output part_of(Output x, int begin, int end, bool from_start, bool to_end) {
  Graph& graph = x.graph();
  ScopeGuard scope = graph.name_scope("strided_slice");
  Output from = ints(graph, {begin}, "stack");
  Output to = ints(graph, {end}, "stack_1");
  Output stride = ints(graph, {1}, "stack_2");
  return op1("StridedSlice", {x, from, to, stride},
             {{"begin_mask", std::int64_t{from_start}}, {"end_mask", std::int64_t{to_end}}}, scope_itself(graph));
}

// The elements of `values` (n of them) where `mask` is true: TensorFlow's boolean_mask of two vectors, node by node.
Output boolean_mask(Output values, Output mask, int n) {
  Graph& graph = values.graph();
  ScopeGuard scope = graph.name_scope("boolean_mask");
  Output size = part_of(ints(graph, {n}, "Shape"), 0, 1, false, false);
  Output product = op1("Prod", {size, ints(graph, {0}, "Prod/reduction_indices")}, {}, "Prod");
  Output before = part_of(ints(graph, {n}, "Shape_1"), 0, 0, true, false);
  Output behind = part_of(ints(graph, {n}, "Shape_2"), 1, 0, false, true);
  Output shape;
  {
    ScopeGuard concat_scope = graph.name_scope("concat");
    Output middle = op1("Pack", {product}, {}, "values_1");
    Output axis = constant(graph, 0, DType::kInt32, "axis");
    shape = op1("ConcatV2", {before, middle, behind, axis}, {}, scope_itself(graph));
  }
  Output flat_values = op1("Reshape", {values, shape}, {}, "Reshape");
  Output flat_mask;
  {
    ScopeGuard reshape_scope = graph.name_scope("Reshape_1");
    flat_mask = op1("Reshape", {mask, ints(graph, {-1}, "shape")}, {}, scope_itself(graph));
  }
  Output places = op1("Squeeze", {op1("Where", {flat_mask}, {}, "Where")},
                      {{"squeeze_dims", std::vector<std::int64_t>{1}}}, "Squeeze");
  ScopeGuard gather_scope = graph.name_scope("GatherV2");
  Output axis = constant(graph, 0, DType::kInt32, "axis");
  return op1("GatherV2", {flat_values, places, axis}, {}, scope_itself(graph));
}

}  // namespace

Output as_int64(Output value) {
  return value.dtype() == DType::kInt64 ? value : op1("Cast", {value}, {{"DstT", DType::kInt64}});
}

Output read_in_place(const Var& variable) {
  ScopeGuard anywhere = variable.handle().graph().device_scope("");
  return variable.read_again();
}

Output read_step(const Var& step) {
  Output value = read_in_place(step);
  return value.dtype() == DType::kInt64 ? value : op1("Cast", {value}, {{"DstT", DType::kInt64}});
}

const std::string& device_of(const Var& variable) { return variable.handle().node->requested_device(); }

Var local_variable(Graph& graph, const Node& anchor, Tensor initial_value, const std::string& name) {
  const DType dtype = initial_value.dtype();
  const PartialShape shape = initial_value.shape();
  const int first_id = graph.id_limit();
  const std::string unique = graph.unique_name(name);
  // The name is whole now: nodes are put under it from the root.
  ScopeGuard root = graph.name_scope("");
  Node* handle = nullptr;
  Output initial;
  {
    ScopeGuard beside = graph.colocate_with(anchor);
    initial = constant(graph, std::move(initial_value), unique + "/Initializer/initial_value");
    handle = graph
                 .add_node({.op = "VarHandleOp",
                            .name = unique + "/",
                            .attrs = {{"dtype", dtype}, {"shape", shape}, {"shared_name", unique}}})
                 .value_or_throw();
    add_op(graph, "VarIsInitializedOp", {handle->output()}, {}, unique + "/IsInitialized/VarIsInitializedOp");
    add_op(graph, "ReadVariableOp", {handle->output()}, {{"dtype", dtype}}, unique + "/Read/ReadVariableOp");
  }
  {
    ScopeGuard nowhere_else = graph.device_scope("");
    ScopeGuard there = graph.device_scope(anchor.requested_device());
    add_op(graph, "AssignVariableOp", {handle->output(), initial}, {{"dtype", dtype}}, unique + "/Assign");
  }
  // Whatever the step waits for, initialising does not.
  for (int id = first_id; id < graph.id_limit(); ++id) graph.set_control_inputs(*graph.node_by_id(id), {});
  graph.add_to_collection("local_variables", *handle);
  return variable_of(*handle);
}

Output report_uninitialized(Graph& graph, const std::vector<Var>& variables) {
  ScopeGuard scope = graph.name_scope("report_uninitialized_variables");
  std::vector<Output> initialized;
  Tensor names(DType::kString, Shape{static_cast<std::int64_t>(variables.size())});
  for (std::size_t i = 0; i < variables.size(); ++i) {
    initialized.push_back(op1("VarIsInitializedOp", {variables[i].handle()}));
    names.data<std::string>()[i] = variables[i].name();
  }
  ScopeGuard cpu = graph.device_scope("/device:CPU:0");
  Output missing = op1("LogicalNot", {op1("Pack", initialized, {}, "stack")});
  Output all_names = constant(graph, std::move(names), "Const");
  return boolean_mask(all_names, missing, static_cast<int>(variables.size()));
}

Node* group_by_device(Graph& graph, const std::vector<Node*>& nodes) {
  std::map<std::string, std::vector<Node*>> by_device;
  for (Node* node : nodes) by_device[node->requested_device()].push_back(node);
  const auto add = [&graph](const std::string& device, const std::vector<Node*>& before, const std::string& name) {
    ScopeGuard nowhere_else = graph.device_scope("");
    ScopeGuard there = graph.device_scope(device);
    return graph.add_node({.op = "NoOp", .name = name, .control_inputs = before}).value_or_throw();
  };
  if (by_device.size() == 1) return add(by_device.begin()->first, nodes, "group_deps");
  ScopeGuard scope = graph.name_scope("group_deps");
  std::vector<Node*> parts;
  for (const auto& [device, there] : by_device) parts.push_back(add(device, there, "NoOp"));
  return graph.add_node({.op = "NoOp", .name = scope_itself(graph), .control_inputs = parts}).value_or_throw();
}

Output fill_with_step(const Var& step, int count, const std::vector<Node*>& after) {
  Graph& graph = step.handle().graph();
  ScopeGuard scope = graph.name_scope("Fill");
  Output dims, value;
  {
    ScopeGuard wait = graph.control_dependencies(after);
    dims = ints(graph, {count}, "dims");
    value = read_in_place(step);
  }
  return op1("Fill", {dims, value}, {}, scope_itself(graph));
}

}  // namespace tutti

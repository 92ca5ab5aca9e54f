#include "tutti/ops/state.h"

#include <algorithm>
#include <utility>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti {

namespace {

constexpr std::string_view kVariables = "variables";
constexpr std::string_view kTrainable = "trainable_variables";

// `node`'s name without the scopes that are open now, so that names can be built on it.
std::string local_name(const Node& node) {
  const std::string scope = node.graph().current_name_scope();
  if (scope.empty()) return node.name();
  const std::size_t prefix = scope.ends_with('/') ? scope.size() : scope.size() + 1;
  return node.name().substr(prefix);
}

Node* make_handle(Graph& graph, DType dtype, const PartialShape& shape, const std::string& name) {
  Node* handle =
      add_op(graph, "VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}}, name.empty() ? "Variable" : name);
  graph.set_attr(*handle, "shared_name", handle->name());
  return handle;
}

std::vector<Var> variables_in(Graph& graph, std::string_view collection) {
  std::vector<Var> variables;
  for (Node* handle : graph.collection(collection)) variables.push_back(variable_of(*handle));
  return variables;
}

Node* update(const Var& variable, const char* op, Output value, const std::string& name) {
  return add_op(variable.handle().graph(), op, {variable.handle(), value}, {{"dtype", variable.dtype()}}, name);
}

Node* finish_variable(Node& handle, Output initial_value, bool trainable) {
  Graph& graph = handle.graph();
  const std::string name = local_name(handle);
  const DType dtype = handle.attr<DType>("dtype");
  add_op(graph, "AssignVariableOp", {handle.output(), initial_value}, {{"dtype", dtype}}, name + "/Assign");
  add_op(graph, "ReadVariableOp", {handle.output()}, {{"dtype", dtype}}, name + "/Read/ReadVariableOp");
  graph.add_to_collection(kVariables, handle);
  if (trainable) graph.add_to_collection(kTrainable, handle);
  return &handle;
}

}  // namespace

bool Var::trainable() const {
  const std::vector<Node*>& all = handle_.graph().collection(kTrainable);
  return std::find(all.begin(), all.end(), handle_.node) != all.end();
}

Output Var::read_again(const std::string& name) const {
  return op1("ReadVariableOp", {handle_}, {{"dtype", dtype()}}, name);
}
Node* Var::assign(Output value, const std::string& name) const {
  return update(*this, "AssignVariableOp", value, name);
}
Node* Var::assign_add(Output value, const std::string& name) const {
  return update(*this, "AssignAddVariableOp", value, name);
}
Node* Var::assign_sub(Output value, const std::string& name) const {
  return update(*this, "AssignSubVariableOp", value, name);
}

Var variable(Graph& graph, Output initial_value, const std::string& name, bool trainable) {
  if (!initial_value) throw_error(invalid_argument("variable \"", printable(name), "\": the initial value is empty"));
  Node* handle = make_handle(graph, initial_value.dtype(), initial_value.shape(), name);
  return variable_of(*finish_variable(*handle, initial_value, trainable));
}

Var variable(Graph& graph, Tensor initial_value, const std::string& name, bool trainable) {
  if (!initial_value.has_value()) {
    throw_error(invalid_argument("variable \"", printable(name), "\": the initial value is empty"));
  }
  Node* handle = make_handle(graph, initial_value.dtype(), initial_value.shape(), name);
  Output value = constant(graph, std::move(initial_value), local_name(*handle) + "/initial_value");
  return variable_of(*finish_variable(*handle, value, trainable));
}

Var variable_of(Node& handle) {
  Node* initializer = handle.graph().find(handle.name() + "/Assign");
  Node* read = handle.graph().find(handle.name() + "/Read/ReadVariableOp");
  if (handle.op_name() != "VarHandleOp" || initializer == nullptr || read == nullptr) {
    throw_error(invalid_argument(handle.describe(), " is not the handle of a variable"));
  }
  return Var(handle.output(), initializer, read->output());
}

std::vector<Var> global_variables(Graph& graph) { return variables_in(graph, kVariables); }
std::vector<Var> trainable_variables(Graph& graph) { return variables_in(graph, kTrainable); }

Node* global_variables_initializer(Graph& graph) {
  std::vector<Node*> initializers;
  for (const Var& variable : global_variables(graph)) initializers.push_back(variable.initializer());
  return group(graph, initializers, "init");
}

}  // namespace tutti

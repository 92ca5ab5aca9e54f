#include "tutti/train/uninitialized.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Var> local_variables(Graph& graph) {
  std::vector<Var> variables;
  for (Node* handle : graph.collection("local_variables")) variables.push_back(variable_of(*handle));
  return variables;
}

Node* local_variables_initializer(Graph& graph) {
  std::vector<Node*> initializers;
  for (const Var& variable : local_variables(graph)) initializers.push_back(variable.initializer());
  return group(graph, initializers, "init_local");
}

Output report_uninitialized_variables(Graph& graph, const std::vector<Var>& variables, const std::string& name) {
  const auto anywhere = graph.device_scope("");
  const auto scope = graph.name_scope(name);
  if (variables.empty()) return constant(graph, Tensor(DType::kString, Shape{0}));
  Tensor names(DType::kString, Shape{static_cast<std::int64_t>(variables.size())});
  std::vector<Output> known;
  for (const Var& variable : variables) {
    names.flat<std::string>()[known.size()] = variable.name();
    known.push_back(op1("VarIsInitializedOp", {variable.handle()}));
  }
  const Output missing = op1("LogicalNot", {stack(known)});
  const Output indices = reshape(op1("Where", {missing}), {-1});
  return gather(constant(graph, std::move(names)), indices);
}

}  // namespace tutti

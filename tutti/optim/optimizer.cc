#include "tutti/optim/optimizer.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti {
namespace {

void check_variable(const std::string& optimizer, const Var& variable) {
  if (is_floating(variable.dtype())) return;
  throw_error(invalid_argument(optimizer, ": variable \"", printable(variable.name()), "\" is ",
                               dtype_name(variable.dtype()), ", which has no gradient"));
}

// One that is there when all in `wait` are.
Gradient gated(const Gradient& gradient, Graph& graph, const std::vector<Node*>& wait) {
  if (!gradient) return gradient;
  ScopeGuard after = graph.control_dependencies(wait);
  if (!gradient.is_sparse()) return identity(gradient.dense());
  const IndexedSlices& slices = gradient.slices();
  return IndexedSlices{identity(slices.values), slices.indices, slices.dense_shape};
}

}  // namespace

Output Hyper::in(Graph& graph, DType dtype, const std::string& name) const {
  if (!value_) return constant(graph, number_, dtype, name);
  if (&value_.graph() != &graph) {
    throw_error(invalid_argument(name, " \"", printable(value_.name()), "\" is of another graph"));
  }
  return value_.dtype() == dtype ? value_ : op1("Cast", {value_}, {{"DstT", dtype}}, name);
}

Node* Optimizer::minimize(Output loss, const std::vector<Var>& variables, const std::optional<Var>& global_step,
                          const std::string& name) {
  return apply_gradients(compute_gradients(loss, variables), global_step, name);
}

std::vector<GradientAndVariable> Optimizer::compute_gradients(Output loss, const std::vector<Var>& variables,
                                                              const GradientOptions& options) {
  if (!loss) throw_error(invalid_argument(name_, ": the loss is empty"));
  const std::vector<Var> chosen = variables.empty() ? trainable_variables(loss.graph()) : variables;
  if (chosen.empty()) throw_error(invalid_argument(name_, ": the graph has no trainable variable"));
  for (const Var& variable : chosen) check_variable(name_, variable);
  return compute(loss, chosen, options);
}

std::vector<GradientAndVariable> Optimizer::compute(Output loss, const std::vector<Var>& variables,
                                                    const GradientOptions& options) {
  std::vector<Output> xs;
  for (const Var& variable : variables) xs.push_back(variable.handle());
  std::vector<Gradient> found = gradients({loss}, xs, options);
  std::vector<GradientAndVariable> pairs;
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.push_back({found[i], variables[i]});
  return pairs;
}

Node* Optimizer::apply_gradients(const std::vector<GradientAndVariable>& gradients,
                                 const std::optional<Var>& global_step, const std::string& name) {
  if (with_gradient(gradients).empty()) {
    std::vector<std::string> names;
    for (const GradientAndVariable& pair : gradients) names.push_back(printable(pair.variable.name()));
    throw_error(
        invalid_argument(name_, ": no variable has a gradient, of ", names.size(), ": ", str_join(names, ", ")));
  }
  Node* train = apply(gradients, global_step, name.empty() ? name_ : name);
  train->graph().add_to_collection("train_op", *train);
  return train;
}

std::vector<GradientAndVariable> with_gradient(const std::vector<GradientAndVariable>& pairs) {
  std::vector<GradientAndVariable> given;
  for (const GradientAndVariable& pair : pairs) {
    if (pair.gradient) given.push_back(pair);
  }
  return given;
}

std::vector<GradientAndVariable> gate_gradients(const std::vector<GradientAndVariable>& pairs) {
  std::vector<Node*> all;
  for (const GradientAndVariable& pair : with_gradient(pairs)) {
    const Gradient& gradient = pair.gradient;
    all.push_back(gradient.is_sparse() ? gradient.slices().values.node : gradient.dense().node);
  }
  if (all.empty()) return pairs;
  Graph& graph = all[0]->graph();
  ScopeGuard scope = graph.name_scope("gate_gradients");
  const std::vector<Node*> gate = {group(graph, all)};
  std::vector<GradientAndVariable> result;
  for (const GradientAndVariable& pair : pairs) result.push_back({gated(pair.gradient, graph, gate), pair.variable});
  return result;
}

IndexedSlices without_repeats(const IndexedSlices& slices) {
  Graph& graph = slices.values.graph();
  Node* unique = add_op(graph, "Unique", {slices.indices});
  Output count = op1("Size", {unique->output(0)});
  return {op1("UnsortedSegmentSum", {slices.values, unique->output(1), count}), unique->output(0), slices.dense_shape};
}

}  // namespace tutti

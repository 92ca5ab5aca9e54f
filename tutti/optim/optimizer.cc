#include "tutti/optim/optimizer.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti {
namespace {

Graph& graph_of(const Var& variable) { return variable.handle().graph(); }

// Sums the rows of each index, so that every index comes once.
IndexedSlices without_repeats(const IndexedSlices& slices) {
  Graph& graph = slices.values.graph();
  Node* unique = add_op(graph, "Unique", {slices.indices});
  Output count = op1("Size", {unique->output(0)});
  return {op1("UnsortedSegmentSum", {slices.values, unique->output(1), count}), unique->output(0), slices.dense_shape};
}

void check_variable(const std::string& optimizer, const Var& variable) {
  if (is_floating(variable.dtype())) return;
  throw_error(invalid_argument(optimizer, ": variable \"", printable(variable.name()), "\" is ",
                               dtype_name(variable.dtype()), ", which has no gradient"));
}

}  // namespace

Output Hyper::in(Graph& graph, DType dtype, const std::string& name) const {
  if (!value_) return constant(graph, number_, dtype, name);
  if (&value_.graph() != &graph) {
    throw_error(invalid_argument(name, " \"", printable(value_.name()), "\" is of another graph"));
  }
  return value_.dtype() == dtype ? value_ : op1("Cast", {value_}, {{"DstT", dtype}}, name);
}

Node* Optimizer::minimize(Output loss, const std::vector<Var>& variables, const std::optional<Var>& global_step) {
  return apply_gradients(compute_gradients(loss, variables), global_step);
}

std::vector<GradientAndVariable> Optimizer::compute_gradients(Output loss, const std::vector<Var>& variables,
                                                              const GradientOptions& options) {
  if (!loss) throw_error(invalid_argument(name_, ": the loss is empty"));
  const std::vector<Var> chosen = variables.empty() ? trainable_variables(loss.graph()) : variables;
  if (chosen.empty()) throw_error(invalid_argument(name_, ": the graph has no trainable variable"));
  std::vector<Output> xs;
  for (const Var& variable : chosen) {
    check_variable(name_, variable);
    xs.push_back(variable.handle());
  }
  std::vector<Gradient> found = gradients({loss}, xs, options);
  std::vector<GradientAndVariable> pairs;
  for (std::size_t i = 0; i < chosen.size(); ++i) pairs.push_back({found[i], chosen[i]});
  return pairs;
}

Node* Optimizer::apply_gradients(const std::vector<GradientAndVariable>& gradients,
                                 const std::optional<Var>& global_step) {
  std::vector<GradientAndVariable> given;
  for (const GradientAndVariable& pair : gradients) {
    if (pair.gradient) given.push_back(pair);
  }
  if (given.empty()) {
    std::vector<std::string> names;
    for (const GradientAndVariable& pair : gradients) names.push_back(printable(pair.variable.name()));
    throw_error(
        invalid_argument(name_, ": no variable has a gradient, of ", names.size(), ": ", str_join(names, ", ")));
  }
  Graph& graph = graph_of(given[0].variable);
  enter(graph);
  std::vector<Var> variables;
  for (const GradientAndVariable& pair : given) variables.push_back(pair.variable);

  std::vector<Node*> updates;
  std::string train_op;  // the scope's own name, which a trailing '/' asks for
  {
    ScopeGuard scope = graph.name_scope(name_);
    train_op = graph.current_name_scope() + "/";
    prepare(variables);
    for (const GradientAndVariable& pair : given) updates.push_back(update(pair.variable, pair.gradient));
    ScopeGuard wait = graph.control_dependencies(updates);
    std::vector<Node*> last = finish();
    updates.insert(updates.end(), last.begin(), last.end());
  }
  ScopeGuard wait = graph.control_dependencies(updates);
  if (!global_step) return add_op(graph, "NoOp", {}, {}, train_op);
  ScopeGuard beside = graph.colocate_with(*global_step->handle().node);
  Output one = constant(graph, 1, global_step->dtype());
  return add_op(graph, "AssignAddVariableOp", {global_step->handle(), one}, {{"dtype", global_step->dtype()}},
                train_op);
}

Node* Optimizer::update(const Var& variable, const Gradient& gradient) {
  Graph& graph = graph_of(variable);
  ScopeGuard scope = graph.name_scope("update_" + variable.name());
  ScopeGuard beside = graph.colocate_with(*variable.handle().node);
  return gradient.is_sparse() ? update_sparse(variable, gradient.slices()) : update_dense(variable, gradient.dense());
}

Node* Optimizer::update_sparse(const Var& variable, const IndexedSlices& slices) {
  return update_rows(variable, without_repeats(slices));
}

Node* Optimizer::update_rows(const Var& variable, const IndexedSlices& rows) {
  return update_dense(variable, Gradient(rows).dense());
}

void Optimizer::enter(Graph& graph) {
  hypers_.clear();
  if (graph_ == &graph) return;
  graph_ = &graph;
  slots_.clear();
  made_.clear();
}

Var Optimizer::slot(const Var& variable, const std::string& which, double initial) {
  auto it = slots_.find({variable.name(), which});
  if (it != slots_.end()) return it->second;
  const std::optional<Shape> shape = variable.shape().as_shape();
  if (!shape) {
    throw_error(invalid_argument(name_, ": variable \"", printable(variable.name()),
                                 "\" has no fixed shape: ", variable.shape()));
  }
  Var made = make_variable(variable, variable.name() + "/" + name_, *shape, initial);
  slots_.emplace(std::pair(variable.name(), which), made);
  return made;
}

Var Optimizer::scalar_beside(const Var& variable, const std::string& name, double initial) {
  auto it = slots_.find({"", name});
  if (it != slots_.end()) return it->second;
  Var made = make_variable(variable, name, Shape{}, initial);
  slots_.emplace(std::pair("", name), made);
  return made;
}

Var Optimizer::make_variable(const Var& beside, const std::string& name, const Shape& shape, double initial) {
  Graph& graph = graph_of(beside);
  ScopeGuard root = graph.name_scope("");
  ScopeGuard place = graph.colocate_with(*beside.handle().node);
  const int first_id = graph.id_limit();
  Output value;
  {
    ScopeGuard scope = graph.name_scope(name + "/Initializer");
    value = constant(graph, initial, beside.dtype());
    if (shape.rank() > 0) value = fill(shape, value);
  }
  Var made = variable(graph, value, name, false);
  // Whatever the step waits for, initialising does not.
  for (int id = first_id; id < graph.id_limit(); ++id) graph.set_control_inputs(*graph.node_by_id(id), {});
  made_.push_back(made);
  return made;
}

Output Optimizer::hyper(const Var& variable, const std::string& name, const Hyper& value) {
  auto [it, is_new] = hypers_.try_emplace({name, variable.dtype(), variable.handle().node->requested_device()});
  if (is_new) it->second = value.in(graph_of(variable), variable.dtype(), name);
  return it->second;
}

}  // namespace tutti

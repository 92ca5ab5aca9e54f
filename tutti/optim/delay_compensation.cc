#include "tutti/optim/delay_compensation.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/graph_helpers.h"
#include "tutti/optim/internal/slot_creator.h"

namespace tutti {
namespace {

// Of the whole variable, or of rows where there are indices.
Output read(Output handle, DType dtype, Output indices) {
  if (!indices) return op1("ReadVariableOp", {handle}, {{"dtype", dtype}});
  return op1("ResourceGather", {handle, indices}, {{"dtype", dtype}});
}

}  // namespace

DelayCompensation::DelayCompensation(Optimizer& inner, DelayCompensationOptions options, std::string name)
    : Optimizer(std::move(name)), inner_(inner), options_(options) {
  if (options_.worker >= 0) return;
  throw_error(invalid_argument(this->name(), ": the worker must not be negative, got ", options_.worker));
}

void DelayCompensation::enter(Graph& graph) {
  if (graph_ == &graph) return;
  graph_ = &graph;
  backups_.clear();
  pulled_.clear();
  mean_squares_.clear();
}

// A bare handle, in no collection: whoever waits for all variables to be initialised, or saves them, does not see it.
Output DelayCompensation::backup(const Var& variable) {
  auto it = backups_.find(variable.name());
  if (it != backups_.end()) return it->second;
  Graph& graph = variable.handle().graph();
  ScopeGuard root = graph.name_scope("");
  ScopeGuard beside = graph.colocate_with(*variable.handle().node);
  Node* handle = add_op(graph, "VarHandleOp", {}, {{"dtype", variable.dtype()}, {"shape", variable.shape()}},
                        str_cat(variable.name(), "/", name(), "/worker_", options_.worker));
  graph.set_attr(*handle, "shared_name", handle->name());
  graph.set_control_inputs(*handle, {});
  return backups_[variable.name()] = handle->output();
}

Node* DelayCompensation::note(const Var& variable, Output value) {
  Output handle = backup(variable);
  ScopeGuard beside = value.graph().colocate_with(*variable.handle().node);
  return add_op(value.graph(), "AssignVariableOp", {handle, value}, {{"dtype", variable.dtype()}});
}

Node* DelayCompensation::pull(const std::vector<Var>& variables) {
  if (variables.empty()) throw_error(invalid_argument(name(), ": there is no variable to pull"));
  Graph& graph = variables[0].handle().graph();
  enter(graph);
  ScopeGuard scope = graph.name_scope("pull");
  std::vector<Node*> notes;
  for (const Var& variable : variables) {
    ScopeGuard beside = graph.colocate_with(*variable.handle().node);
    notes.push_back(note(variable, variable.read_again()));
  }
  return group(graph, notes);
}

std::vector<GradientAndVariable> DelayCompensation::compute(Output loss, const std::vector<Var>& variables,
                                                            const GradientOptions& options) {
  std::vector<GradientAndVariable> pairs = inner_.compute_gradients(loss, variables, options);
  enter(loss.graph());
  ScopeGuard scope = loss.graph().name_scope("pull");
  for (const GradientAndVariable& pair : with_gradient(pairs)) {
    pulled_[pair.variable.name()] = note(pair.variable, pair.variable.read());
  }
  return pairs;
}

Var DelayCompensation::mean_square(const Var& variable) {
  auto it = mean_squares_.find(variable.name());
  if (it != mean_squares_.end()) return it->second;
  const Var made = create_slot(variable, "", variable.name() + "/" + name(), filled_like(variable, 0, name()));
  mean_squares_.emplace(variable.name(), made);
  return made;
}

// lambda, or what it is adapted to. The mean square is moved on the way.
Output DelayCompensation::strength(const Var& variable, Output gradient, Output indices) {
  Graph& graph = gradient.graph();
  Output lambda = constant(graph, options_.lambda, variable.dtype(), "lambda");
  if (!options_.adaptive) return lambda;
  const Var mean = mean_square(variable);
  Output moved = read(mean.handle(), mean.dtype(), indices) * options_.decay + square(gradient) * (1 - options_.decay);
  Node* assign = indices ? assign_rows(mean, indices, moved) : mean.assign(moved);
  ScopeGuard after = graph.control_dependencies({assign});
  return lambda / sqrt(moved + options_.epsilon);
}

// The weights are read when the gradient is there, as late as can be.
Gradient DelayCompensation::compensated(const GradientAndVariable& pair) {
  const Var& variable = pair.variable;
  Graph& graph = variable.handle().graph();
  ScopeGuard scope = graph.name_scope("compensate_" + variable.name());
  ScopeGuard beside = graph.colocate_with(*variable.handle().node);
  const bool sparse = pair.gradient.is_sparse();
  const IndexedSlices rows = sparse ? without_repeats(pair.gradient.slices()) : IndexedSlices{};
  Output gradient = sparse ? rows.values : pair.gradient.dense();
  std::vector<Node*> before = {gradient.node};
  if (auto it = pulled_.find(variable.name()); it != pulled_.end()) before.push_back(it->second);
  Output change;
  {
    ScopeGuard wait = graph.control_dependencies(before);
    change = read(variable.handle(), variable.dtype(), rows.indices) -
             read(backup(variable), variable.dtype(), rows.indices);
  }
  Output correction = strength(variable, gradient, rows.indices) * square(gradient) * change;
  Output result = gradient + correction;
  return sparse ? Gradient(IndexedSlices{result, rows.indices, rows.dense_shape}) : Gradient(result);
}

Node* DelayCompensation::apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
                               const std::string& name) {
  const std::vector<GradientAndVariable> given = with_gradient(gradients);
  Graph& graph = given[0].variable.handle().graph();
  enter(graph);
  std::vector<GradientAndVariable> corrected;
  std::vector<Var> to_note;
  {
    ScopeGuard scope = graph.name_scope(name);
    for (const GradientAndVariable& pair : given) {
      corrected.push_back({compensated(pair), pair.variable});
      if (!pulled_.contains(pair.variable.name())) to_note.push_back(pair.variable);
    }
  }
  Node* train = inner_.apply_gradients(corrected, global_step);
  if (to_note.empty()) return train;
  ScopeGuard wait = graph.control_dependencies({train});
  return pull(to_note);
}

}  // namespace tutti

#include "tutti/optim/slot_optimizer.h"

#include <algorithm>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/internal/slot_creator.h"

namespace tutti {
namespace {

Graph& graph_of(const Var& variable) { return variable.handle().graph(); }

}  // namespace

Node* SlotOptimizer::apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
                           const std::string& name) {
  const std::vector<GradientAndVariable> given = with_gradient(gradients);
  Graph& graph = graph_of(given[0].variable);
  enter(graph);
  std::vector<Var> variables;
  for (const GradientAndVariable& pair : given) variables.push_back(pair.variable);

  ScopeGuard scope = graph.name_scope(name);
  const std::string train_op = graph.current_name_scope() + "/";  // the scope's own name: a trailing '/' asks for it
  prepare(variables);
  std::vector<Node*> updates = update_all(given);
  {
    ScopeGuard wait = graph.control_dependencies(updates);
    std::vector<Node*> last = finish();
    updates.insert(updates.end(), last.begin(), last.end());
  }
  if (!global_step) return group(graph, updates, train_op);
  ScopeGuard wait = graph.control_dependencies({group(graph, updates, "update")});
  ScopeGuard beside = graph.colocate_with(*global_step->handle().node);
  Output one = constant(graph, 1, global_step->dtype());
  return add_op(graph, "AssignAddVariableOp", {global_step->handle(), one}, {{"dtype", global_step->dtype()}},
                train_op);
}

std::vector<Node*> SlotOptimizer::update_all(const std::vector<GradientAndVariable>& pairs) {
  std::vector<Node*> updates;
  for (const GradientAndVariable& pair : pairs) updates.push_back(update(pair.variable, pair.gradient));
  return updates;
}

Node* SlotOptimizer::update(const Var& variable, const Gradient& gradient) {
  Graph& graph = graph_of(variable);
  ScopeGuard scope = graph.name_scope("update_" + variable.name());
  ScopeGuard beside = graph.colocate_with(*variable.handle().node);
  return gradient.is_sparse() ? update_sparse(variable, gradient.slices()) : update_dense(variable, gradient.dense());
}

Node* SlotOptimizer::update_sparse(const Var& variable, const IndexedSlices& slices) {
  return update_rows(variable, without_repeats(slices));
}

Node* SlotOptimizer::update_rows(const Var& variable, const IndexedSlices& rows) {
  return update_dense(variable, Gradient(rows).dense());
}

void SlotOptimizer::enter(Graph& graph) {
  hypers_.clear();
  outer_scope_ = graph.current_name_scope();
  if (graph_ == &graph) return;
  graph_ = &graph;
  slots_.clear();
  made_.clear();
}

std::optional<Var> SlotOptimizer::get_slot(const Var& variable, const std::string& which) const {
  auto it = slots_.find({variable.name(), which});
  return it == slots_.end() ? std::nullopt : std::optional<Var>(it->second);
}

Var SlotOptimizer::slot(const Var& variable, const std::string& which, double initial, const std::string& slot_name) {
  auto it = slots_.find({variable.name(), which});
  if (it != slots_.end()) return it->second;
  const std::string& last = slot_name.empty() ? name() : slot_name;
  return keep({variable.name(), which},
              create_slot(variable, "", variable.name() + "/" + last, filled_like(variable, initial, name())));
}

Var SlotOptimizer::scalar_beside(const Var& variable, const std::string& name, double initial) {
  auto it = slots_.find({"", name});
  if (it != slots_.end()) return it->second;
  // A half cannot hold the powers of a decay near one.
  const DType dtype = variable.dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
  return keep({"", name},
              create_slot(variable, outer_scope_, name, [&](Graph& graph) { return constant(graph, initial, dtype); }));
}

const Var& SlotOptimizer::first_by_name(const std::vector<Var>& variables) {
  return *std::min_element(variables.begin(), variables.end(),
                           [](const Var& a, const Var& b) { return a.name() < b.name(); });
}

Var SlotOptimizer::keep(std::pair<std::string, std::string> key, const Var& made) {
  slots_.emplace(std::move(key), made);
  made_.push_back(made);
  return made;
}

Output SlotOptimizer::hyper(const Var& variable, const std::string& name, const Hyper& value) {
  auto [it, is_new] = hypers_.try_emplace({name, variable.dtype(), variable.handle().node->requested_device()});
  if (is_new) it->second = value.in(graph_of(variable), variable.dtype(), name);
  return it->second;
}

}  // namespace tutti

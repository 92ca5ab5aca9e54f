#include "tutti/optim/lamb.h"

#include "tutti/ops/math.h"
#include "tutti/optim/internal/whole_norms.h"

namespace tutti {

LAMB::Step LAMB::step_of(const Var& variable, Output gradient) {
  const Var m = slot(variable, "m", 0);
  const Var v = slot(variable, "v", 0);
  const std::vector<Output> hypers = hypers_of(variable);
  Output beta1_power = hypers[0], beta2_power = hypers[1], beta1 = hypers[3], beta2 = hypers[4], epsilon = hypers[5];
  Output new_m = m.read_again() * beta1 + gradient * (1.0 - beta1);
  Output new_v = v.read_again() * beta2 + square(gradient) * (1.0 - beta2);
  Output direction = (new_m / (1.0 - beta1_power)) / (sqrt(new_v / (1.0 - beta2_power)) + epsilon);
  if (!options_.decays || options_.decays(variable)) {
    direction = direction + hyper(variable, "weight_decay", weight_decay_) * variable.read_again();
  }
  return {variable, direction, {m.assign(new_m), v.assign(new_v)}};
}

// All directions first: the scale of a part needs those of the others.
std::vector<Node*> LAMB::update_all(const std::vector<GradientAndVariable>& pairs) {
  Graph& graph = pairs[0].variable.handle().graph();
  WholeNorms weights, directions;
  std::vector<Step> steps;
  for (const GradientAndVariable& pair : pairs) {
    ScopeGuard scope = graph.name_scope("direction_" + pair.variable.name());
    ScopeGuard beside = graph.colocate_with(*pair.variable.handle().node);
    steps.push_back(step_of(pair.variable, pair.gradient.dense()));
    weights.add(pair.variable, pair.variable.read_again());
    directions.add(pair.variable, steps.back().direction);
  }
  std::vector<Node*> updates;
  for (Step& step : steps) {
    ScopeGuard scope = graph.name_scope("update_" + step.variable.name());
    ScopeGuard beside = graph.colocate_with(*step.variable.handle().node);
    Output rate = hyper(step.variable, "learning_rate", learning_rate());
    if (!options_.adapts || options_.adapts(step.variable)) {
      Output weight = weights.norm_of(step.variable), direction = directions.norm_of(step.variable);
      rate = rate * ratio_or_one(weight, direction, weight / direction);
    }
    step.assigns.push_back(step.variable.assign_sub(step.direction * rate));
    updates.push_back(group(graph, step.assigns));
  }
  return updates;
}

Node* LAMB::update_dense(const Var& variable, Output gradient) { return update_all({{gradient, variable}})[0]; }

}  // namespace tutti

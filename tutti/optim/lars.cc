#include "tutti/optim/lars.h"

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/whole_norms.h"

namespace tutti {

Node* LARS::apply_momentum(const Var& variable, Output gradient, Output rate) {
  return add_op(gradient.graph(), "ResourceApplyMomentum",
                {variable.handle(), slot(variable, "momentum", 0).handle(), rate, gradient,
                 hyper(variable, "momentum", options_.momentum)},
                {{"use_nesterov", options_.use_nesterov}});
}

// All norms first: the rate of a part needs those of the others.
std::vector<Node*> LARS::update_all(const std::vector<GradientAndVariable>& pairs) {
  Graph& graph = pairs[0].variable.handle().graph();
  WholeNorms weights, gradients;
  std::vector<Output> values, dense;
  for (const GradientAndVariable& pair : pairs) {
    ScopeGuard scope = graph.name_scope("norm_" + pair.variable.name());
    ScopeGuard beside = graph.colocate_with(*pair.variable.handle().node);
    values.push_back(pair.variable.read_again());
    dense.push_back(pair.gradient.dense());
    weights.add(pair.variable, values.back());
    gradients.add(pair.variable, dense.back());
  }
  std::vector<Node*> updates;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Var& variable = pairs[i].variable;
    ScopeGuard scope = graph.name_scope("update_" + variable.name());
    ScopeGuard beside = graph.colocate_with(*variable.handle().node);
    Output rate = hyper(variable, "learning_rate", learning_rate_);
    Output gradient = dense[i];
    if (!options_.adapts || options_.adapts(variable)) {
      Output decay = hyper(variable, "weight_decay", options_.weight_decay);
      Output w = weights.norm_of(variable), g = gradients.norm_of(variable);
      Output below = g + decay * w + hyper(variable, "epsilon", options_.epsilon);
      rate = rate * ratio_or_one(w, g, hyper(variable, "eeta", options_.eeta) * w / below);
      gradient = gradient + decay * values[i];
    }
    updates.push_back(apply_momentum(variable, gradient, rate));
  }
  return updates;
}

Node* LARS::update_dense(const Var& variable, Output gradient) { return update_all({{gradient, variable}})[0]; }

}  // namespace tutti

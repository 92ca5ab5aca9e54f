#include "tutti/optim/adam.h"

#include <algorithm>

#include "tutti/ops/builders.h"

namespace tutti {
namespace {

Output as_type(Output value, DType dtype) {
  return value.dtype() == dtype ? value : op1("Cast", {value}, {{"DstT", dtype}});
}

}  // namespace

// The powers sit with the variable whose name sorts first, so that every replica agrees on the place.
void Adam::prepare(const std::vector<Var>& variables) {
  const Var& first = *std::min_element(variables.begin(), variables.end(),
                                       [](const Var& a, const Var& b) { return a.name() < b.name(); });
  beta1_power_ = scalar_beside(first, "beta1_power", options_.beta1);
  beta2_power_ = scalar_beside(first, "beta2_power", options_.beta2);
}

Node* Adam::update_dense(const Var& variable, Output gradient) {
  const DType dtype = variable.dtype();
  Output m = slot(variable, "m", 0).handle();
  Output v = slot(variable, "v", 0).handle();
  return add_op(gradient.graph(), "ResourceApplyAdam",
                {variable.handle(), m, v, as_type(beta1_power_->read(), dtype), as_type(beta2_power_->read(), dtype),
                 hyper(variable, "learning_rate", learning_rate_), hyper(variable, "beta1", options_.beta1),
                 hyper(variable, "beta2", options_.beta2), hyper(variable, "epsilon", options_.epsilon), gradient});
}

std::vector<Node*> Adam::finish() {
  std::vector<Node*> nodes;
  auto multiply = [&](const Var& power, const std::string& name, double beta) {
    Graph& graph = power.handle().graph();
    ScopeGuard beside = graph.colocate_with(*power.handle().node);
    Output next = op1("Mul", {power.read(), hyper(power, name, beta)});
    nodes.push_back(add_op(graph, "AssignVariableOp", {power.handle(), next}, {{"dtype", power.dtype()}}));
  };
  multiply(*beta1_power_, "beta1", options_.beta1);
  multiply(*beta2_power_, "beta2", options_.beta2);
  return nodes;
}

}  // namespace tutti

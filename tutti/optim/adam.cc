#include "tutti/optim/adam.h"

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/graph_helpers.h"

namespace tutti {

void Adam::prepare(const std::vector<Var>& variables) {
  const Var& first = first_by_name(variables);
  beta1_power_ = scalar_beside(first, "beta1_power", options_.beta1);
  beta2_power_ = scalar_beside(first, "beta2_power", options_.beta2);
}

std::vector<Output> Adam::hypers_of(const Var& variable) {
  const DType dtype = variable.dtype();
  return {cast(beta1_power_->read(), dtype),
          cast(beta2_power_->read(), dtype),
          hyper(variable, "learning_rate", learning_rate_),
          hyper(variable, "beta1", options_.beta1),
          hyper(variable, "beta2", options_.beta2),
          hyper(variable, "epsilon", options_.epsilon)};
}

Node* Adam::update_dense(const Var& variable, Output gradient) {
  Output m = slot(variable, "m", 0).handle();
  Output v = slot(variable, "v", 0).handle();
  std::vector<Output> inputs = {variable.handle(), m, v};
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  inputs.push_back(gradient);
  return add_op(gradient.graph(), "ResourceApplyAdam", std::move(inputs));
}

std::vector<Node*> Adam::finish() {
  return {multiply_in_place(*beta1_power_, hyper(*beta1_power_, "beta1", options_.beta1)),
          multiply_in_place(*beta2_power_, hyper(*beta2_power_, "beta2", options_.beta2))};
}

}  // namespace tutti

#include "tutti/optim/proximal_gradient_descent.h"

#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Output> ProximalGradientDescent::inputs(const Var& variable, Output gradient) {
  return {variable.handle(), hyper(variable, "learning_rate", learning_rate_),
          hyper(variable, "l1", options_.l1_regularization_strength),
          hyper(variable, "l2", options_.l2_regularization_strength), gradient};
}

Node* ProximalGradientDescent::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyProximalGradientDescent", inputs(variable, gradient));
}

Node* ProximalGradientDescent::update_rows(const Var& variable, const IndexedSlices& rows) {
  std::vector<Output> all = inputs(variable, rows.values);
  all.push_back(rows.indices);
  return add_op(rows.values.graph(), "ResourceSparseApplyProximalGradientDescent", std::move(all));
}

}  // namespace tutti

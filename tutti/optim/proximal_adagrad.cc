#include "tutti/optim/proximal_adagrad.h"

#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Output> ProximalAdagrad::inputs(const Var& variable, Output gradient) {
  return {variable.handle(),
          slot(variable, "accumulator", options_.initial_accumulator_value).handle(),
          hyper(variable, "learning_rate", learning_rate_),
          hyper(variable, "l1", options_.l1_regularization_strength),
          hyper(variable, "l2", options_.l2_regularization_strength),
          gradient};
}

Node* ProximalAdagrad::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyProximalAdagrad", inputs(variable, gradient));
}

Node* ProximalAdagrad::update_rows(const Var& variable, const IndexedSlices& rows) {
  std::vector<Output> all = inputs(variable, rows.values);
  all.push_back(rows.indices);
  return add_op(rows.values.graph(), "ResourceSparseApplyProximalAdagrad", std::move(all));
}

}  // namespace tutti

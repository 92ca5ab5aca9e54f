#include "tutti/optim/ftrl.h"

#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Output> Ftrl::slots_of(const Var& variable) {
  Output accumulator = slot(variable, "accumulator", options_.initial_accumulator_value).handle();
  return {variable.handle(), accumulator, slot(variable, "linear", 0).handle()};
}

std::vector<Output> Ftrl::hypers_of(const Var& variable) {
  return {hyper(variable, "learning_rate", learning_rate_), hyper(variable, "l1", options_.l1_regularization_strength),
          hyper(variable, "l2", options_.l2_regularization_strength),
          hyper(variable, "learning_rate_power", options_.learning_rate_power)};
}

Node* Ftrl::update_dense(const Var& variable, Output gradient) {
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(gradient);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(gradient.graph(), "ResourceApplyFtrl", std::move(inputs));
}

Node* Ftrl::update_rows(const Var& variable, const IndexedSlices& rows) {
  if (!has_op(rows.values.graph(), "ResourceSparseApplyFtrl")) return Optimizer::update_rows(variable, rows);
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(rows.values);
  inputs.push_back(rows.indices);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(rows.values.graph(), "ResourceSparseApplyFtrl", std::move(inputs));
}

}  // namespace tutti

#include "tutti/optim/ftrl.h"

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {

std::vector<Output> Ftrl::slots_of(const Var& variable) {
  Output accumulator = slot(variable, "accum", options_.initial_accumulator_value, options_.accum_name).handle();
  return {variable.handle(), accumulator, slot(variable, "linear", 0, options_.linear_name).handle()};
}

std::vector<Output> Ftrl::hypers_of(const Var& variable) {
  Output rate = hyper(variable, "learning_rate", learning_rate_);
  Output l2 = hyper(variable, "l2", options_.l2_regularization_strength);
  if (options_.beta != 0) l2 = l2 + hyper(variable, "beta", options_.beta) / (2.0 * rate);
  std::vector<Output> hypers = {rate, hyper(variable, "l1", options_.l1_regularization_strength), l2};
  if (shrinks()) hypers.push_back(hyper(variable, "l2_shrinkage", options_.l2_shrinkage_regularization_strength));
  hypers.push_back(hyper(variable, "learning_rate_power", options_.learning_rate_power));
  return hypers;
}

Node* Ftrl::update_dense(const Var& variable, Output gradient) {
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(gradient);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(gradient.graph(), shrinks() ? "ResourceApplyFtrlV2" : "ResourceApplyFtrl", std::move(inputs));
}

Node* Ftrl::update_rows(const Var& variable, const IndexedSlices& rows) {
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(rows.values);
  inputs.push_back(rows.indices);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(rows.values.graph(), shrinks() ? "ResourceSparseApplyFtrlV2" : "ResourceSparseApplyFtrl",
                std::move(inputs));
}

}  // namespace tutti

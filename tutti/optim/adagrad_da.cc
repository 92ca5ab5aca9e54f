#include "tutti/optim/adagrad_da.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {

AdagradDA::AdagradDA(Hyper learning_rate, const Var& global_step, AdagradDAOptions options, std::string name)
    : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), global_step_(global_step), options_(options) {
  if (options_.initial_gradient_squared_accumulator_value > 0) return;
  throw_error(invalid_argument(this->name(), ": initial_gradient_squared_accumulator_value must be positive, got ",
                               options_.initial_gradient_squared_accumulator_value));
}

void AdagradDA::prepare(const std::vector<Var>& /*variables*/) {
  step_ = add(cast(global_step_.read(), DType::kInt64),
              constant(global_step_.handle().graph(), std::int64_t{1}, DType::kInt64));
}

std::vector<Output> AdagradDA::slots_of(const Var& variable) {
  Output sum = slot(variable, "gradient_accumulator", 0).handle();
  return {variable.handle(), sum,
          slot(variable, "gradient_squared_accumulator", options_.initial_gradient_squared_accumulator_value).handle()};
}

std::vector<Output> AdagradDA::hypers_of(const Var& variable) {
  return {hyper(variable, "learning_rate", learning_rate_), hyper(variable, "l1", options_.l1_regularization_strength),
          hyper(variable, "l2", options_.l2_regularization_strength), step_};
}

Node* AdagradDA::update_dense(const Var& variable, Output gradient) {
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(gradient);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(gradient.graph(), "ResourceApplyAdagradDA", std::move(inputs));
}

Node* AdagradDA::update_rows(const Var& variable, const IndexedSlices& rows) {
  std::vector<Output> inputs = slots_of(variable);
  inputs.push_back(rows.values);
  inputs.push_back(rows.indices);
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  return add_op(rows.values.graph(), "ResourceSparseApplyAdagradDA", std::move(inputs));
}

}  // namespace tutti

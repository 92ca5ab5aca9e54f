#include "tutti/optim/rmsprop.h"

#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Output> RMSProp::inputs(const Var& variable, Output gradient) {
  // The mean square starts at one: the first steps are small.
  Output ms = slot(variable, "rms", 1).handle();
  std::vector<Output> inputs = {variable.handle()};
  if (options_.centered) inputs.push_back(slot(variable, "mg", 0).handle());
  inputs.push_back(ms);
  inputs.push_back(slot(variable, "momentum", 0).handle());
  inputs.push_back(hyper(variable, "learning_rate", learning_rate_));
  inputs.push_back(hyper(variable, "decay", options_.decay));
  inputs.push_back(hyper(variable, "momentum", options_.momentum));
  inputs.push_back(hyper(variable, "epsilon", options_.epsilon));
  inputs.push_back(gradient);
  return inputs;
}

Node* RMSProp::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), options_.centered ? "ResourceApplyCenteredRMSProp" : "ResourceApplyRMSProp",
                inputs(variable, gradient));
}

Node* RMSProp::update_rows(const Var& variable, const IndexedSlices& rows) {
  const char* op = options_.centered ? "ResourceSparseApplyCenteredRMSProp" : "ResourceSparseApplyRMSProp";
  std::vector<Output> all = inputs(variable, rows.values);
  all.push_back(rows.indices);
  return add_op(rows.values.graph(), op, std::move(all));
}

}  // namespace tutti

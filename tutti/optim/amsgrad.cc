#include "tutti/optim/amsgrad.h"

#include "tutti/ops/builders.h"

namespace tutti {

Node* AMSGrad::update_dense(const Var& variable, Output gradient) {
  Output m = slot(variable, "m", 0).handle();
  Output v = slot(variable, "v", 0).handle();
  std::vector<Output> inputs = {variable.handle(), m, v, slot(variable, "vhat", 0).handle()};
  for (Output value : hypers_of(variable)) inputs.push_back(value);
  inputs.push_back(gradient);
  return add_op(gradient.graph(), "ResourceApplyAdamWithAmsgrad", std::move(inputs));
}

}  // namespace tutti

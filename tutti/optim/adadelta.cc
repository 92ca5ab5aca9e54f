#include "tutti/optim/adadelta.h"

#include "tutti/ops/builders.h"

namespace tutti {

std::vector<Output> Adadelta::inputs(const Var& variable, Output gradient) {
  Output accum = slot(variable, "accum", 0).handle();
  Output accum_update = slot(variable, "accum_update", 0).handle();
  return {variable.handle(),
          accum,
          accum_update,
          hyper(variable, "lr", learning_rate_),
          hyper(variable, "rho", options_.rho),
          hyper(variable, "epsilon", options_.epsilon),
          gradient};
}

Node* Adadelta::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyAdadelta", inputs(variable, gradient));
}

Node* Adadelta::update_rows(const Var& variable, const IndexedSlices& rows) {
  std::vector<Output> all = inputs(variable, rows.values);
  all.push_back(rows.indices);
  return add_op(rows.values.graph(), "ResourceSparseApplyAdadelta", std::move(all));
}

}  // namespace tutti

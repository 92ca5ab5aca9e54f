#include "tutti/optim/momentum.h"

#include "tutti/ops/builders.h"

namespace tutti {

Node* Momentum::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyMomentum",
                {variable.handle(), slot(variable, "momentum", 0).handle(),
                 hyper(variable, "learning_rate", learning_rate_), gradient, hyper(variable, "momentum", momentum_)},
                {{"use_nesterov", options_.use_nesterov}});
}

Node* Momentum::update_rows(const Var& variable, const IndexedSlices& rows) {
  return add_op(
      rows.values.graph(), "ResourceSparseApplyMomentum",
      {variable.handle(), slot(variable, "momentum", 0).handle(), hyper(variable, "learning_rate", learning_rate_),
       rows.values, rows.indices, hyper(variable, "momentum", momentum_)},
      {{"use_nesterov", options_.use_nesterov}});
}

}  // namespace tutti

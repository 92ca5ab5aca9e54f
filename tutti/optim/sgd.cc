#include "tutti/optim/sgd.h"

#include "tutti/ops/builders.h"

namespace tutti {

Node* SGD::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyGradientDescent",
                {variable.handle(), hyper(variable, "learning_rate", learning_rate_), gradient});
}

// Rows that come twice are simply added twice.
Node* SGD::update_sparse(const Var& variable, const IndexedSlices& slices) {
  Output step = op1("Neg", {op1("Mul", {slices.values, hyper(variable, "learning_rate", learning_rate_)})});
  return add_op(step.graph(), "ResourceScatterAdd", {variable.handle(), slices.indices, step},
                {{"dtype", variable.dtype()}});
}

}  // namespace tutti

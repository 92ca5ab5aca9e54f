#include "tutti/optim/adagrad.h"

#include "tutti/ops/builders.h"

namespace tutti {

Node* Adagrad::update_dense(const Var& variable, Output gradient) {
  return add_op(gradient.graph(), "ResourceApplyAdagrad",
                {variable.handle(), accumulator(variable), hyper(variable, "learning_rate", learning_rate_), gradient});
}

Node* Adagrad::update_rows(const Var& variable, const IndexedSlices& rows) {
  return add_op(rows.values.graph(), "ResourceSparseApplyAdagrad",
                {variable.handle(), accumulator(variable), hyper(variable, "learning_rate", learning_rate_),
                 rows.values, rows.indices});
}

}  // namespace tutti

#include "tutti/optim/adamax.h"

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/graph_helpers.h"

namespace tutti {

void Adamax::prepare(const std::vector<Var>& variables) {
  beta1_power_ = scalar_beside(first_by_name(variables), "beta1_power", options_.beta1);
}

Node* Adamax::update_dense(const Var& variable, Output gradient) {
  Output m = slot(variable, "m", 0).handle();
  Output v = slot(variable, "v", 0).handle();
  return add_op(gradient.graph(), "ResourceApplyAdaMax",
                {variable.handle(), m, v, cast(beta1_power_->read(), variable.dtype()),
                 hyper(variable, "learning_rate", learning_rate_), hyper(variable, "beta1", options_.beta1),
                 hyper(variable, "beta2", options_.beta2), hyper(variable, "epsilon", options_.epsilon), gradient});
}

Node* Adamax::update_rows(const Var& variable, const IndexedSlices& rows) {
  const Var m = slot(variable, "m", 0);
  const Var v = slot(variable, "v", 0);
  Output beta1 = hyper(variable, "beta1", options_.beta1);
  Output beta2 = hyper(variable, "beta2", options_.beta2);
  Output new_m = gather_rows(m, rows.indices) * beta1 + rows.values * (1.0 - beta1);
  Output new_v = maximum(gather_rows(v, rows.indices) * beta2, abs(rows.values));
  Output rate = hyper(variable, "learning_rate", learning_rate_) / (1.0 - cast(beta1_power_->read(), variable.dtype()));
  Output step = rate * (new_m / (new_v + hyper(variable, "epsilon", options_.epsilon)));
  return group(rows.values.graph(), {assign_rows(m, rows.indices, new_m), assign_rows(v, rows.indices, new_v),
                                     subtract_rows(variable, rows.indices, step)});
}

std::vector<Node*> Adamax::finish() {
  return {multiply_in_place(*beta1_power_, hyper(*beta1_power_, "beta1", options_.beta1))};
}

}  // namespace tutti

#include "tutti/optim/replica_sync.h"

namespace tutti {

std::vector<GradientAndVariable> ReplicaSync::compute_gradients(Output loss, const std::vector<Var>& variables,
                                                                const GradientOptions& options) {
  return optimizer_.compute_gradients(loss, variables, options);
}

Node* ReplicaSync::minimize(Output loss, const Var& global_step, const std::vector<Var>& variables) {
  return apply_gradients(compute_gradients(loss, variables), global_step);
}

Node* ReplicaSync::apply_gradients(const std::vector<GradientAndVariable>& gradients, const Var& global_step) {
  if (is_built_) throw_error(failed_precondition(optimizer_.name(), ": the replicas have their train node already"));
  if (gradients.empty()) throw_error(invalid_argument("Must supply at least one variable"));
  if (global_step.dtype() != DType::kInt64 && global_step.dtype() != DType::kInt32) {
    throw_error(invalid_argument("the global step \"", printable(global_step.name()), "\" must be an integer, not ",
                                 dtype_name(global_step.dtype())));
  }
  for (const GradientAndVariable& pair : gradients) {
    if (&pair.variable.handle().graph() == &global_step.handle().graph()) continue;
    throw_error(invalid_argument("variable \"", printable(pair.variable.name()),
                                 "\" is of another graph than the global step"));
  }
  nodes_ = build(gradients, global_step);
  is_built_ = true;
  return nodes_.train;
}

const ReplicaSync::Nodes& ReplicaSync::built() const {
  if (!is_built_) throw_error(failed_precondition(optimizer_.name(), ": should be called after apply_gradients()."));
  return nodes_;
}

}  // namespace tutti

#include "tutti/optim/internal/graph_helpers.h"

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti {
namespace {

Node* scatter(const char* op, const Var& variable, Output indices, Output rows) {
  return add_op(rows.graph(), op, {variable.handle(), indices, rows}, {{"dtype", variable.dtype()}});
}

}  // namespace

Node* multiply_in_place(const Var& variable, Output factor) {
  ScopeGuard beside = factor.graph().colocate_with(*variable.handle().node);
  return variable.assign(mul(variable.read(), factor));
}

Output gather_rows(const Var& variable, Output indices) {
  return op1("ResourceGather", {variable.handle(), indices}, {{"dtype", variable.dtype()}});
}

Node* assign_rows(const Var& variable, Output indices, Output rows) {
  return scatter("ResourceScatterUpdate", variable, indices, rows);
}

Node* subtract_rows(const Var& variable, Output indices, Output rows) {
  return scatter("ResourceScatterSub", variable, indices, rows);
}

}  // namespace tutti

// Rows of the scatters that make a new tensor.

#include <optional>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/tensor_scatter.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

Status tensor_scatter_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank_at_least(1, 1).status());
  c.set_output(0, c.input(0));
  return {};
}

void tensor_scatter_update_grad(GradContext& g) {
  Output indices = g.input(1);
  if (g.needs(0)) g.set(0, op1("TensorScatterUpdate", {g.grad(), indices, zeros_like(g.input(2))}));
  if (g.needs(2)) g.set(2, gather_nd(g.grad(), indices));
}

GradFn tensor_scatter_sum_grad(bool subtract) {
  return [subtract](GradContext& g) {
    g.set(0, g.grad());
    if (!g.needs(2)) return;
    Output updates = gather_nd(g.grad(), g.input(1));
    g.set(2, subtract ? neg(updates) : updates);
  };
}

// Shared between all that are as large (small) as the result.
void tensor_scatter_extremum_grad(GradContext& g) {
  Output x = g.input(0), indices = g.input(1), updates = g.input(2), dy = g.grad(), out = g.output(0);
  Output x_wins = cast(equal(x, out), dy.dtype());
  Output updates_win = cast(equal(updates, gather_nd(out, indices)), dy.dtype());
  Output winners = add(x_wins, op1("ScatterNd", {indices, updates_win, shape_of(x, indices.dtype())}));
  g.set(0, div(mul(dy, x_wins), winners));
  g.set(2, mul(gather_nd(div(dy, winners), indices), updates_win));
}

}  // namespace

void add_tensor_scatter_ops(OpTable& ops) {
  const auto add = [&](const std::string& name, const std::string& index_types, KernelEntry kernel, GradFn grad) {
    ops.add({.name = name,
             .signature = "tensor: T, indices: Tindices, updates: T -> output: T",
             .attrs = "T: type; Tindices: " + index_types,
             .shape = tensor_scatter_shape,
             .grad = std::move(grad),
             .kernels = {std::move(kernel)}});
  };
  add("TensorScatterUpdate", "{int16, int32, int64, uint16}",
      TUTTI_CPU(cpu::tensor_scatter_kernel(std::nullopt), kIndexTypes, "Tindices"), tensor_scatter_update_grad);
  const auto add_combining = [&](const std::string& name, cpu::BinaryOp combine, DTypeSet types, GradFn grad) {
    add(name, "{int32, int64}", TUTTI_CPU(cpu::tensor_scatter_kernel(combine), types), std::move(grad));
  };
  add_combining("TensorScatterAdd", cpu::BinaryOp::kAdd, kNumbers, tensor_scatter_sum_grad(false));
  add_combining("TensorScatterSub", cpu::BinaryOp::kSub, kNumbers, tensor_scatter_sum_grad(true));
  add_combining("TensorScatterMin", cpu::BinaryOp::kMinimum, kReals, tensor_scatter_extremum_grad);
  add_combining("TensorScatterMax", cpu::BinaryOp::kMaximum, kReals, tensor_scatter_extremum_grad);
}

}  // namespace tutti::internal

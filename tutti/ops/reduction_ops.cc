// Rows of the reductions.

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/reduction.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using cpu::ReduceOp;
using internal::kept_dims_shape;
using internal::known_shape_of;
using internal::scalar_like;

// `value` of the result's shape with the reduced dimensions back in, as ones.
Output with_kept_dims(GradContext& g, Output value) {
  if (g.attr<bool>("keep_dims")) return value;
  return reshape(value, kept_dims_shape(g.node()));
}

Output spread(GradContext& g, Output value) {
  return broadcast_to(with_kept_dims(g, value), known_shape_of(g.input(0)));
}

void sum_grad(GradContext& g) { g.set(0, spread(g, g.grad())); }

// Divided before it is spread: the fewer divisions.
void mean_grad(GradContext& g) {
  Output x = g.input(0);
  Output y = g.output(0);
  const std::int64_t in = x.shape().num_elements();
  const std::int64_t out = y.shape().num_elements();
  Output count;
  if (in >= 0 && out > 0) {
    count = scalar_like(g.grad(), static_cast<double>(in / out));
  } else {
    Output one = constant(x.graph(), 1, DType::kInt32);
    count = cast(floordiv(size(x), maximum(size(y), one)), g.grad().dtype());
  }
  g.set(0, spread(g, div(g.grad(), count)));
}

// Elements that share the extremum share its gradient.
void reduced_extremum_grad(GradContext& g) {
  Output x = g.input(0);
  Output chosen = cast(equal(with_kept_dims(g, g.output(0)), x), g.grad().dtype());
  Output count = op1("Sum", {chosen, g.input(1)}, {{"keep_dims", true}});
  g.set(0, mul(div(chosen, count), with_kept_dims(g, g.grad())));
}

void prod_grad(GradContext& g) { g.set(0, op1("_ProdGrad", {g.input(0), g.input(1), with_kept_dims(g, g.grad())})); }

void euclidean_norm_grad(GradContext& g) { g.set(0, mul(g.input(0), with_kept_dims(g, div(g.grad(), g.output(0))))); }

Status arg_reduction_shape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  if (!in.has_rank()) return {};
  if (in.rank() < 1) return invalid_argument("the input must have at least rank 1, got ", in);
  std::optional<Tensor> dimension = c.constant(1);
  if (!dimension || dimension->num_elements() != 1) {
    c.set_output(0, PartialShape::unknown_of_rank(in.rank() - 1));
    return {};
  }
  std::int64_t axis = 0;
  if (dimension->dtype() == DType::kInt64) {
    axis = dimension->scalar<std::int64_t>();
  } else if (dimension->dtype() == DType::kInt16) {
    axis = dimension->scalar<std::int16_t>();
  } else {
    axis = dimension->scalar<std::int32_t>();
  }
  TUTTI_ASSIGN_OR_RETURN(int at, ShapeContext::normalise_axis(axis, in.rank()));
  std::vector<std::int64_t> dims(in.dims().begin(), in.dims().end());
  dims.erase(dims.begin() + at);
  c.set_output(0, PartialShape(std::move(dims)));
  return {};
}

void add_reduction(OpTable& ops, const char* name, ReduceOp op, DTypeSet types, DTypeSet kernel_types, GradFn grad) {
  ops.add({.name = name,
           .signature = "input: T, reduction_indices: Tidx -> output: T",
           .attrs = "keep_dims: bool = false; T: type; Tidx: {int32, int64} = int32",
           .types = types | internal::kQuantised,
           .shape = shape::reduction,
           .grad = std::move(grad),
           .kernels = {TUTTI_CPU(cpu::reduction_kernel(op), kernel_types)}});
}

void add_logical_reduction(OpTable& ops, const char* name, ReduceOp op) {
  ops.add({.name = name,
           .signature = "input: bool, reduction_indices: Tidx -> output: bool",
           .attrs = "keep_dims: bool = false; Tidx: {int32, int64} = int32",
           .shape = shape::reduction,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::reduction_kernel(op))}});
}

}  // namespace

void register_reduction_ops(OpTable& ops) {
  add_reduction(ops, "Sum", ReduceOp::kSum, kNumbers, kNumbers, sum_grad);
  add_reduction(ops, "Mean", ReduceOp::kMean, kNumbers, kNumbers, mean_grad);
  add_reduction(ops, "Prod", ReduceOp::kProd, kNumbers, kNumbers, prod_grad);
  add_reduction(ops, "Min", ReduceOp::kMin, kReals, kReals, reduced_extremum_grad);
  add_reduction(ops, "Max", ReduceOp::kMax, kReals, kReals, reduced_extremum_grad);
  add_reduction(ops, "EuclideanNorm", ReduceOp::kEuclideanNorm, kNumbers, kNumbers, euclidean_norm_grad);
  add_logical_reduction(ops, "All", ReduceOp::kAll);
  add_logical_reduction(ops, "Any", ReduceOp::kAny);
  // The gradient of Prod: `dy` times the product of all other elements of the same result. `dy` keeps the reduced
  // dimensions as ones.
  ops.add({.name = "_ProdGrad",
           .signature = "input: T, reduction_indices: Tidx, dy: T -> dx: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32",
           .types = kFloats | kComplexes,
           .shape = shape::unchanged,
           .kernels = {TUTTI_CPU(cpu::prod_grad_kernel())}});
  ops.add({.name = "ArgMax",
           .signature = "input: T, dimension: Tidx -> output: output_type",
           .attrs = "T: type; Tidx: {int16, int32, int64} = int32; output_type: {int16, uint16, int32, int64} = int64",
           .types = kReals | internal::kQuantised | DTypeSet{DType::kBool},
           .shape = arg_reduction_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::arg_reduction_kernel(true), kReals | DTypeSet{DType::kBool})}});
  ops.add({.name = "ArgMin",
           .signature = "input: T, dimension: Tidx -> output: output_type",
           .attrs = "T: type; Tidx: {int32, int64} = int32; output_type: {int32, int64} = int64",
           .types = kReals | internal::kQuantised | DTypeSet{DType::kBool},
           .shape = arg_reduction_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::arg_reduction_kernel(false), kReals | DTypeSet{DType::kBool})}});
}

}  // namespace tutti

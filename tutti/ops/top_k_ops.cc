// Rows of TopK.

#include <optional>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/top_k.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

Status top_k_rows_shape(ShapeContext& c, std::optional<std::int64_t> k) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.with_rank_at_least(0, 1));
  if (k && *k < 0) return invalid_argument("Need k >= 0, got ", *k);
  if (!shape.has_rank()) return {};
  const int last = shape.rank() - 1;
  if (k && shape.dim(last) != kUnknownDim && shape.dim(last) < *k) {
    return invalid_argument("input must have last dimension >= k = ", *k, " but is ", shape.dim(last));
  }
  shape.set_dim(last, k.value_or(kUnknownDim));
  c.set_output(0, shape);
  c.set_output(1, std::move(shape));
  return {};
}

Status top_k_shape(ShapeContext& c) { return top_k_rows_shape(c, c.attr<std::int64_t>("k")); }

Status top_k_v2_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 0).status());
  const auto k = constant_ints(c, 1);
  return top_k_rows_shape(c, k && k->size() == 1 ? std::optional(k->front()) : std::nullopt);
}

// Each gradient goes to the place that its value came from, counted over all rows as one.
void top_k_grad(GradContext& g) {
  Output x = g.input(0), places = cast(g.output(1), DType::kInt64);
  Graph& graph = g.graph();
  Output dims = shape_of(x, DType::kInt64);
  Output row_size = gather(dims, sub(rank(x), constant(graph, 1, DType::kInt32)));
  Output count = reduce_prod(dims);
  // The first place of every row, as a column. (Rows without elements have no places.)
  Output firsts = range(constant(graph, 0, DType::kInt64), count, maximum(row_size, constant(graph, 1, DType::kInt64)));
  Output in_rows = reshape(
      places, Ints(stack({cast(size(firsts), DType::kInt64),
                          gather(shape_of(places, DType::kInt64), sub(rank(x), constant(graph, 1, DType::kInt32)))})));
  Output all = reshape(add(in_rows, expand_dims(firsts, 1)), {-1, 1});
  Output flat = op1("ScatterNd", {all, reshape(g.grad(), {-1}), reshape(count, {1})});
  g.set(0, reshape(flat, Ints(dims)));
}

}  // namespace

void add_top_k_ops(OpTable& ops) {
  ops.add({.name = "TopK",
           .signature = "input: T -> values: T, indices: int32",
           .attrs = "k: int >= 0; sorted: bool = true; T: type",
           .types = kReals,
           .shape = top_k_shape,
           .grad = top_k_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::top_k_kernel())}});
  ops.add({.name = "TopKV2",
           .signature = "input: T, k: Tk -> values: T, indices: index_type",
           .attrs = "sorted: bool = true; T: type; Tk: {int16, int32, int64} = int32; "
                    "index_type: {int16, int32, int64} = int32",
           .types = kReals,
           .shape = top_k_v2_shape,
           .grad = top_k_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::top_k_kernel())}});
}

}  // namespace tutti::internal

// Rows of ops that find equal slices. (Unique itself is with the array ops.)

#include <string>

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/unique_slices.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/row_groups.h"

namespace tutti::internal {
namespace {

Status unique_with_counts_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape x, c.with_rank(0, 1));
  c.set_output(0, PartialShape{kUnknownDim});
  c.set_output(1, x);
  c.set_output(2, PartialShape{kUnknownDim});
  return {};
}

// y has as many dimensions as x, and x's sizes but for that of the axis.
Status unique_v2_shape(ShapeContext& c) {
  const PartialShape& x = c.input(0);
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 1).status());
  PartialShape places{kUnknownDim};
  const auto axis = constant_ints(c, 1);
  if (x.has_rank() && axis && axis->size() <= 1) {
    if (axis->empty()) TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
    TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(axis->empty() ? 0 : axis->front(), x.rank()));
    PartialShape y = x;
    places.set_dim(0, x.dim(at));
    y.set_dim(at, kUnknownDim);
    c.set_output(0, std::move(y));
  }
  c.set_output(1, std::move(places));
  if (c.num_outputs() > 2) c.set_output(2, PartialShape{kUnknownDim});
  return {};
}

}  // namespace

void add_unique_ops(OpTable& ops) {
  const DTypeSet types = kReals | DTypeSet{DType::kBool, DType::kString};
  ops.add({.name = "UniqueWithCounts",
           .signature = "x: T -> y: T, idx: out_idx, count: out_idx",
           .attrs = "T: type; out_idx: {int32, int64} = int32",
           .shape = unique_with_counts_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::unique_slices), types)}});
  for (const bool counts : {false, true}) {
    ops.add({.name = counts ? "UniqueWithCountsV2" : "UniqueV2",
             .signature = std::string("x: T, axis: Taxis -> y: T, idx: out_idx") + (counts ? ", count: out_idx" : ""),
             .attrs = "T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
             .shape = unique_v2_shape,
             .kernels = {TUTTI_CPU(kernel_from(cpu::unique_slices), types)}});
  }
}

}  // namespace tutti::internal

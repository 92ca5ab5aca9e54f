// Rows joined by groups: segments, embedding bags, bins.
#include <string>

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/bincount.h"
#include "tutti/kernels/cpu/segment.h"
#include "tutti/kernels/cpu/sparse_segment.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/segment_grads.h"
#include "tutti/ops/internal/sparse_families.h"

namespace tutti::internal {

namespace {

// --- Shape rules. ---

// Input 0 with its first dimension replaced by `rows`.
Status set_rows(ShapeContext& c, std::int64_t rows) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape data, c.with_rank_at_least(0, 1));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape indices, c.with_rank(1, 1));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape ids, c.with_rank(2, 1));
  TUTTI_RETURN_IF_ERROR(indices.merge(ids).status());
  if (data.has_rank()) data.set_dim(0, rows);
  c.set_output(0, std::move(data));
  return {};
}

Status bag_shape(ShapeContext& c) { return set_rows(c, kUnknownDim); }

Status counted_bag_shape(ShapeContext& c) {
  if (c.input(3).has_rank() && c.input(3).rank() != 0) {
    return invalid_argument("input 3 must be a scalar, got shape ", c.input(3));
  }
  const auto count = constant_ints(c, 3);
  if (count && count->size() == 1 && (*count)[0] < 0)
    return invalid_argument("input 3, ", (*count)[0], ", is negative");
  return set_rows(c, count && count->size() == 1 ? (*count)[0] : kUnknownDim);
}

Status bag_grad_v2_shape(ShapeContext& c) {
  c.set_output(1, PartialShape{kUnknownDim});
  return set_rows(c, kUnknownDim);
}

std::int64_t known_size(ShapeContext& c, int input) {
  const auto size = constant_ints(c, input);
  return size && size->size() == 1 && (*size)[0] >= 0 ? (*size)[0] : kUnknownDim;
}

Status bincount_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{known_size(c, 1)});
  return {};
}

Status dense_bincount_shape(ShapeContext& c) {
  const PartialShape& values = c.input(0);
  if (!values.has_rank()) return {};
  if (values.rank() > 2) return invalid_argument("the input must have at most 2 dimensions, got ", values);
  const std::int64_t size = known_size(c, 1);
  c.set_output(0, values.rank() == 2 ? PartialShape{values.dim(0), size} : PartialShape{size});
  return {};
}

Status ragged_bincount_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{kUnknownDim, known_size(c, 2)});
  return {};
}

// --- Rows. ---

OpRow segment_row(std::string name, DTypeSet types, GradFn grad, KernelFn kernel) {
  return {.name = std::move(name),
          .signature = "data: T, segment_ids: Tindices -> output: T",
          .attrs = "T: type; Tindices: {int32, int64}",
          .types = types,
          .shape = segment_shape,
          .grad = std::move(grad),
          .kernels = {TUTTI_CPU(kernel_from(kernel))}};
}

OpRow unsorted_row(std::string name, DTypeSet types, GradFn grad, KernelFn kernel) {
  return {.name = std::move(name),
          .signature = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
          .attrs = "T: type; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32",
          .types = types,
          .shape = unsorted_segment_shape,
          .grad = std::move(grad),
          .kernels = {TUTTI_CPU(kernel_from(kernel))}};
}

void add_segments(OpTable& ops) {
  ops.add(segment_row("SegmentMean", kNumbers, segment_mean_grad, cpu::segment_mean));
  ops.add(segment_row("SegmentProd", kNumbers, segment_prod_grad, cpu::segment_prod));
  ops.add(segment_row("SegmentMin", kReals, segment_extreme_grad, cpu::segment_min));
  ops.add(segment_row("SegmentMax", kReals, segment_extreme_grad, cpu::segment_max));
  ops.add(unsorted_row("UnsortedSegmentProd", kNumbers, unsorted_segment_prod_grad, cpu::unsorted_segment_prod));
  ops.add(unsorted_row("UnsortedSegmentMin", kReals, unsorted_segment_extreme_grad, cpu::unsorted_segment_min));
  ops.add(unsorted_row("UnsortedSegmentMax", kReals, unsorted_segment_extreme_grad, cpu::unsorted_segment_max));
}

void add_bag(OpTable& ops, const std::string& law, DTypeSet types, cpu::SegmentScale scale) {
  const std::string name = "SparseSegment" + law, grad = name + "Grad";
  ops.add({.name = name,
           .signature = "data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; "
                    "sparse_gradient: bool = false",
           .types = types,
           .shape = bag_shape,
           .grad = sparse_segment_grad(grad.c_str()),
           .kernels = {TUTTI_CPU(cpu::sparse_segment_kernel(scale, false))}});
  ops.add({.name = name + "WithNumSegments",
           .signature = "data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments -> output: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; "
                    "Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false",
           .types = types,
           .shape = counted_bag_shape,
           .grad = sparse_segment_grad(grad.c_str()),
           .kernels = {TUTTI_CPU(cpu::sparse_segment_kernel(scale, true))}});
  ops.add({.name = grad,
           .signature = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32",
           .types = kFloats,
           .shape = counted_bag_shape,
           .kernels = {TUTTI_CPU(cpu::sparse_segment_grad_kernel(scale, false))}});
  ops.add({.name = grad + "V2",
           .signature = "grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32 -> output: T, "
                        "sorted_unique_indices: Tidx",
           .attrs = "T: type; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32",
           .types = kFloats,
           .shape = bag_grad_v2_shape,
           .kernels = {TUTTI_CPU(cpu::sparse_segment_grad_kernel(scale, true))}});
}

void add_bins(OpTable& ops) {
  ops.add({.name = "Bucketize",
           .signature = "input: T -> output: int32",
           .attrs = "T: {int32, int64, float, double}; boundaries: list(float)",
           .shape = shape::unchanged,
           .kernels = {TUTTI_CPU(cpu::bucketize_kernel())}});
  ops.add({.name = "Bincount",
           .signature = "arr: int32, size: int32, weights: T -> bins: T",
           .attrs = "T: {int32, int64, float, double}",
           .shape = bincount_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::bincount))}});
  ops.add({.name = "DenseBincount",
           .signature = "input: Tidx, size: Tidx, weights: T -> output: T",
           .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
           .shape = dense_bincount_shape,
           .kernels = {TUTTI_CPU(cpu::dense_bincount_kernel())}});
  ops.add({.name = "SparseBincount",
           .signature = "indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T -> output: T",
           .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
           .shape = shape::none,
           .kernels = {TUTTI_CPU(cpu::sparse_bincount_kernel())}});
  ops.add({.name = "RaggedBincount",
           .signature = "splits: int64, values: Tidx, size: Tidx, weights: T -> output: T",
           .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
           .shape = ragged_bincount_shape,
           .kernels = {TUTTI_CPU(cpu::ragged_bincount_kernel())}});
}

}  // namespace

void add_segment_ops(OpTable& ops) {
  add_segments(ops);
  add_bag(ops, "Sum", kReals, cpu::SegmentScale::kOne);
  add_bag(ops, "Mean", kFloats, cpu::SegmentScale::kMean);
  add_bag(ops, "SqrtN", kFloats, cpu::SegmentScale::kSqrtN);
  add_bins(ops);
}

}  // namespace tutti::internal

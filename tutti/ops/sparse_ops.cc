// Sparse tensors in coordinates: their structure, arithmetic on them, and crossed features.
#include <string>

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/sparse_arithmetic.h"
#include "tutti/kernels/cpu/sparse_cross.h"
#include "tutti/kernels/cpu/sparse_structure.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/sparse_families.h"
#include "tutti/ops/internal/sparse_grads.h"

namespace tutti::internal {

namespace {

// --- Shape rules. ---

// How many dimensions the sparse tensor has whose indices are input `i` and whose shape is input `shape`.
std::int64_t known_rank(ShapeContext& c, int indices, int shape) {
  if (c.input(shape).rank() == 1 && c.input(shape).dim(0) != kUnknownDim) return c.input(shape).dim(0);
  return c.input(indices).rank() == 2 ? c.input(indices).dim(1) : kUnknownDim;
}

Status set_sparse(ShapeContext& c, int first, std::int64_t count, std::int64_t rank) {
  c.set_output(first, PartialShape{count, rank});
  c.set_output(first + 1, PartialShape{count});
  if (first + 2 < c.num_outputs()) c.set_output(first + 2, PartialShape{rank});
  return {};
}

// Output 0..2: a sparse tensor with the rank of the inputs and an open number of entries.
Status open_sparse_shape(ShapeContext& c) { return set_sparse(c, 0, kUnknownDim, known_rank(c, 0, 2)); }

// How many entries: rows of input `indices`.
std::int64_t known_count(ShapeContext& c, int indices) {
  return c.input(indices).rank() == 2 ? c.input(indices).dim(0) : kUnknownDim;
}

Status reorder_shape(ShapeContext& c) { return set_sparse(c, 0, known_count(c, 0), known_rank(c, 0, 2)); }

Status sparse_reshape_shape(ShapeContext& c) {
  const PartialShape& to = c.input(2);
  const std::int64_t rank = to.rank() == 1 ? to.dim(0) : kUnknownDim;
  c.set_output(0, PartialShape{known_count(c, 0), rank});
  c.set_output(1, PartialShape{rank});
  return {};
}

Status slice_grad_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{known_count(c, 1)});
  return {};
}

Status add_grad_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{known_count(c, 1)});
  c.set_output(1, PartialShape{known_count(c, 2)});
  return {};
}

Status fill_rows_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{kUnknownDim, known_rank(c, 0, 2)});
  c.set_output(1, PartialShape{kUnknownDim});
  const PartialShape dense = c.input_as_shape(2);
  c.set_output(2, PartialShape{dense.rank() >= 1 ? dense.dim(0) : kUnknownDim});
  c.set_output(3, PartialShape{known_count(c, 0)});
  return {};
}

Status fill_rows_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape map, c.with_rank(0, 1));
  c.set_output(0, map);
  c.set_output(1, PartialShape::scalar());
  return {};
}

Status sparse_concat_shape(ShapeContext& c) {
  const int parts = static_cast<int>(c.attr<std::int64_t>("N"));
  std::int64_t rows = 0;
  for (int i = 0; i < parts && rows != kUnknownDim; ++i) {
    const PartialShape& indices = c.input(i);
    const bool known = indices.rank() == 2 && indices.dim(0) != kUnknownDim;
    if (!known || __builtin_add_overflow(rows, indices.dim(0), &rows)) rows = kUnknownDim;
  }
  return set_sparse(c, 0, rows, known_rank(c, 0, 2 * parts));
}

Status sparse_split_shape(ShapeContext& c) {
  const int parts = c.num_outputs() / 3;
  const std::int64_t rank = known_rank(c, 1, 3);
  for (int i = 0; i < parts; ++i) {
    c.set_output(i, PartialShape{kUnknownDim, rank});
    c.set_output(parts + i, PartialShape{kUnknownDim});
    c.set_output(2 * parts + i, PartialShape{rank});
  }
  return {};
}

Status like_input_3(ShapeContext& c) {
  c.set_output(0, c.input(3));
  return {};
}

Status like_values(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape values, c.with_rank(1, 1));
  c.set_output(0, values);
  return {};
}

Status cross_shape(ShapeContext& c) { return set_sparse(c, 0, kUnknownDim, 2); }

Status any_sparse_shape(ShapeContext& c) { return set_sparse(c, 0, kUnknownDim, kUnknownDim); }

// --- Rows. ---

constexpr DTypeSet kMovable =
    kPlain | DTypeSet{DType::kString} | DTypeSet{DType::kResource} | DTypeSet{DType::kVariant};
constexpr DTypeSet kAddable =
    kComplexes | DTypeSet{DType::kFloat, DType::kDouble, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};

void add_row_ops(OpTable& ops) {
  ops.add({.name = "SparseFillEmptyRows",
           .signature = "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, "
                        "output_values: T, empty_row_indicator: bool, reverse_index_map: int64",
           .attrs = "T: type",
           .shape = fill_rows_shape,
           .grad = sparse_fill_empty_rows_gradient,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_fill_empty_rows), kMovable)}});
  ops.add({.name = "SparseFillEmptyRowsGrad",
           .signature = "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T",
           .attrs = "T: type",
           .shape = fill_rows_grad_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_fill_empty_rows_grad), kNumbers)}});
  ops.add({.name = "SparseReshape",
           .signature = "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, "
                        "output_shape: int64",
           .shape = sparse_reshape_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_reshape))}});
  ops.add({.name = "SparseReorder",
           .signature = "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, "
                        "output_values: T",
           .attrs = "T: type",
           .shape = reorder_shape,
           .grad = sparse_reorder_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_reorder), kMovable)}});
}

void add_parts(OpTable& ops) {
  ops.add({.name = "SparseSlice",
           .signature = "indices: int64, values: T, shape: int64, start: int64, size: int64 -> output_indices: int64, "
                        "output_values: T, output_shape: int64",
           .attrs = "T: type",
           .shape = open_sparse_shape,
           .grad = sparse_slice_gradient,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_slice), kMovable)}});
  ops.add({.name = "SparseSliceGrad",
           .signature = "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64 -> "
                        "val_grad: T",
           .attrs = "T: type",
           .types = kNumbers,
           .shape = slice_grad_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_slice_grad))}});
  ops.add({.name = "SparseConcat",
           .signature = "indices: N * int64, values: N * T, shapes: N * int64 -> output_indices: int64, "
                        "output_values: T, output_shape: int64",
           .attrs = "concat_dim: int; N: int >= 2; T: type",
           .shape = sparse_concat_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::sparse_concat_kernel(), kMovable)}});
  ops.add({.name = "SparseSplit",
           .signature = "split_dim: int64, indices: int64, values: T, shape: int64 -> output_indices: num_split * "
                        "int64, output_values: num_split * T, output_shape: num_split * int64",
           .attrs = "num_split: int >= 1; T: type",
           .shape = sparse_split_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_split), kMovable)}});
}

void add_sums(OpTable& ops) {
  ops.add({.name = "SparseAdd",
           .signature = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64, "
                        "thresh: Treal -> sum_indices: int64, sum_values: T, sum_shape: int64",
           .attrs = "T: type; Treal: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
                    "uint64}",
           .types = kNumbers,
           .shape = open_sparse_shape,
           .grad = sparse_add_gradient,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_add), kAddable)}});
  ops.add({.name = "SparseAddGrad",
           .signature =
               "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> a_val_grad: T, "
               "b_val_grad: T",
           .attrs = "T: type",
           .types = kNumbers,
           .shape = add_grad_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_add_grad), kAddable)}});
  ops.add({.name = "SparseTensorDenseAdd",
           .signature = "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
           .attrs = "T: type; Tindices: {int32, int64}",
           .types = kNumbers,
           .shape = like_input_3,
           .grad = sparse_tensor_dense_add_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_tensor_dense_add))}});
}

OpRow extreme_row(std::string name, DTypeSet types, KernelFn kernel) {
  return {.name = std::move(name),
          .signature =
              "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64 -> "
              "output_indices: int64, output_values: T",
          .attrs = "T: type",
          .types = types,
          .shape = open_sparse_shape,
          .kernels = {TUTTI_CPU(kernel_from(kernel), kReals)}};
}

OpRow cwise_row(std::string name, GradFn grad, KernelFn kernel) {
  return {.name = std::move(name),
          .signature = "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T",
          .attrs = "T: type",
          .types = kNumbers,
          .shape = like_values,
          .grad = std::move(grad),
          .kernels = {TUTTI_CPU(kernel_from(kernel), kReals)}};
}

OpRow reduction_row(std::string name, bool sparse, DTypeSet types, KernelFactory kernel, GradFn grad = nullptr) {
  return {.name = std::move(name),
          .signature = str_cat("input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 -> ",
                               sparse ? "output_indices: int64, output_values: T, output_shape: int64" : "output: T"),
          .attrs = "keep_dims: bool = false; T: type",
          .types = types,
          .shape = sparse ? any_sparse_shape : shape::none,
          .grad = std::move(grad),
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

void add_crosses(OpTable& ops) {
  const std::string types = "sparse_types: list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0";
  const std::string inputs = "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types";
  ops.add({.name = "SparseCross",
           .signature = inputs + " -> output_indices: int64, output_values: out_type, output_shape: int64",
           .attrs = "N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; " + types +
                    "; out_type: {int64, string}; internal_type: {int64, string}",
           .shape = cross_shape,
           .kernels = {TUTTI_CPU(cpu::sparse_cross_kernel())}});
  ops.add({.name = "SparseCrossV2",
           .signature = inputs + ", sep: string -> output_indices: int64, output_values: string, output_shape: int64",
           .attrs = "N: int >= 0; " + types,
           .shape = cross_shape,
           .kernels = {TUTTI_CPU(cpu::sparse_cross_v2_kernel())}});
  ops.add({.name = "SparseCrossHashed",
           .signature = inputs + ", num_buckets: int64, strong_hash: bool, salt: int64 -> output_indices: int64, "
                                 "output_values: int64, output_shape: int64",
           .attrs = "N: int >= 0; " + types,
           .shape = cross_shape,
           .kernels = {TUTTI_CPU(cpu::sparse_cross_hashed_kernel())}});
}

}  // namespace

void add_sparse_ops(OpTable& ops) {
  add_row_ops(ops);
  add_parts(ops);
  add_sums(ops);
  ops.add(extreme_row("SparseSparseMaximum", kReals, cpu::sparse_maximum));
  ops.add(extreme_row("SparseSparseMinimum", kNumbers, cpu::sparse_minimum));
  ops.add(cwise_row("SparseDenseCwiseMul", sparse_dense_multiply_grad, cpu::sparse_dense_multiply));
  ops.add(cwise_row("SparseDenseCwiseDiv", sparse_dense_divide_grad, cpu::sparse_dense_divide));
  ops.add(cwise_row("SparseDenseCwiseAdd", nullptr, cpu::sparse_dense_add));
  ops.add({.name = "SparseSoftmax",
           .signature = "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T",
           .attrs = "T: {half, float, double}",
           .shape = like_values,
           .grad = sparse_softmax_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::sparse_softmax))}});
  ops.add(reduction_row("SparseReduceSum", false, kNumbers, cpu::sparse_reduce_sum_kernel(), sparse_reduce_sum_grad));
  ops.add(reduction_row("SparseReduceMax", false, kReals, cpu::sparse_reduce_max_kernel()));
  ops.add(reduction_row("SparseReduceSumSparse", true, kNumbers, cpu::sparse_reduce_sum_sparse_kernel()));
  ops.add(reduction_row("SparseReduceMaxSparse", true, kReals, cpu::sparse_reduce_max_sparse_kernel()));
  add_crosses(ops);
}

}  // namespace tutti::internal

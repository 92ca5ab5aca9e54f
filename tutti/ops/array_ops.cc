// Shapes, slices, gathers, concatenation: ops that move elements or look at shapes.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/concat.h"
#include "tutti/kernels/cpu/fill.h"
#include "tutti/kernels/cpu/gather.h"
#include "tutti/kernels/cpu/list_diff.h"
#include "tutti/kernels/cpu/partition.h"
#include "tutti/kernels/cpu/rearrange.h"
#include "tutti/kernels/cpu/segment.h"
#include "tutti/kernels/cpu/shapes.h"
#include "tutti/kernels/cpu/slice.h"
#include "tutti/kernels/cpu/sparse_to_dense.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/block_ops.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

using namespace internal;  // NOLINT: the rows below name dozens of its functions

constexpr DTypeSet kReversible = kPlain | DTypeSet{DType::kString};

void add_shape_readers(OpTable& ops) {
  ops.add({.name = "Shape",
           .signature = "input: T -> output: out_type",
           .attrs = "T: type; out_type: {int32, int64} = int32",
           .shape = shapes_of_inputs,
           .no_gradient = true,
           .traits = kMetadataOnly,
           .kernels = {TUTTI_CPU(kernel_from(cpu::shape_of))}});
  ops.add({.name = "ShapeN",
           .signature = "input: N * T -> output: N * out_type",
           .attrs = "N: int >= 1; T: type; out_type: {int32, int64} = int32",
           .shape = shapes_of_inputs,
           .no_gradient = true,
           .traits = kMetadataOnly,
           .kernels = {TUTTI_CPU(kernel_from(cpu::shape_of))}});
  ops.add({.name = "Size",
           .signature = "input: T -> output: out_type",
           .attrs = "T: type; out_type: {int32, int64} = int32",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kMetadataOnly,
           .kernels = {TUTTI_CPU(kernel_from(cpu::size_of))}});
  ops.add({.name = "Rank",
           .signature = "input: T -> output: int32",
           .attrs = "T: type",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kMetadataOnly,
           .kernels = {TUTTI_CPU(kernel_from(cpu::rank_of))}});
}

void add_shape_changers(OpTable& ops) {
  ops.add({.name = "Reshape",
           .signature = "tensor: T, shape: Tshape -> output: T",
           .attrs = "T: type; Tshape: {int32, int64} = int32",
           .shape = reshape_shape,
           .grad = reshape_like_input_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::reshape))}});
  ops.add({.name = "ExpandDims",
           .signature = "input: T, dim: Tdim -> output: T",
           .attrs = "T: type; Tdim: {int32, int64} = int32",
           .shape = expand_dims_shape,
           .grad = reshape_like_input_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::expand_dims))}});
  ops.add({.name = "Squeeze",
           .signature = "input: T -> output: T",
           .attrs = "T: type; squeeze_dims: list(int) >= 0 = []",
           .shape = squeeze_shape,
           .grad = reshape_like_input_grad,
           .kernels = {TUTTI_CPU(cpu::squeeze_kernel())}});
  ops.add({.name = "EnsureShape",
           .signature = "input: T -> output: T",
           .attrs = "shape: shape; T: type",
           .shape = ensure_shape_shape,
           .grad = pass_through_grad,
           .kernels = {TUTTI_CPU(cpu::ensure_shape_kernel())}});
  ops.add({.name = "Bitcast",
           .signature = "input: T -> output: type",
           .attrs = "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, "
                    "complex64, complex128, qint8, quint8, qint16, quint16, qint32}; "
                    "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, "
                    "complex64, complex128, qint8, quint8, qint16, quint16, qint32}",
           .shape = bitcast_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::bitcast_kernel())}});
}

void add_shape_arithmetic(OpTable& ops) {
  ops.add({.name = "InvertPermutation",
           .signature = "x: T -> y: T",
           .attrs = "T: {int32, int64} = int32",
           .shape = vector_unchanged_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::invert_permutation))}});
  ops.add({.name = "ConcatOffset",
           .signature = "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type",
           .attrs = "N: int >= 2; shape_type: {int32, int64} = int32",
           .shape = concat_offset_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::concat_offset))}});
  ops.add({.name = "BroadcastArgs",
           .signature = "s0: T, s1: T -> r0: T",
           .attrs = "T: {int32, int64} = int32",
           .shape = broadcast_args_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::broadcast_args))}});
  ops.add({.name = "BroadcastGradientArgs",
           .signature = "s0: T, s1: T -> r0: T, r1: T",
           .attrs = "T: {int32, int64} = int32",
           .shape = open_vectors_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::broadcast_gradient_args))}});
}

void add_joins(OpTable& ops) {
  ops.add({.name = "ConcatV2",
           .signature = "values: N * T, axis: Tidx -> output: T",
           .attrs = "N: int >= 2; T: type; Tidx: {int32, int64} = int32",
           .shape = concat_v2_shape,
           .grad = concat_v2_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::concat_v2))}});
  ops.add({.name = "Concat",
           .signature = "concat_dim: int32, values: N * T -> output: T",
           .attrs = "N: int >= 2; T: type",
           .shape = concat_shape,
           .grad = concat_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::concat))}});
  ops.add({.name = "Pack",
           .signature = "values: N * T -> output: T",
           .attrs = "N: int >= 1; T: type; axis: int = 0",
           .shape = pack_shape,
           .grad = pack_grad,
           .kernels = {TUTTI_CPU(cpu::pack_kernel())}});
  ops.add({.name = "Unpack",
           .signature = "value: T -> output: num * T",
           .attrs = "num: int >= 0; T: type; axis: int = 0",
           .shape = unpack_shape,
           .grad = unpack_grad,
           .kernels = {TUTTI_CPU(cpu::unpack_kernel())}});
  ops.add({.name = "Split",
           .signature = "split_dim: int32, value: T -> output: num_split * T",
           .attrs = "num_split: int >= 1; T: type",
           .shape = split_shape,
           .grad = split_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::split))}});
  ops.add({.name = "SplitV",
           .signature = "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T",
           .attrs = "num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
           .shape = split_v_shape,
           .grad = split_v_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::split_v))}});
}

void add_slices(OpTable& ops) {
  const std::string masks(internal::kSliceMasks);
  ops.add({.name = "Slice",
           .signature = "input: T, begin: Index, size: Index -> output: T",
           .attrs = "T: type; Index: {int32, int64}",
           .shape = slice_shape,
           .grad = slice_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::slice))}});
  ops.add({.name = "StridedSlice",
           .signature = "input: T, begin: Index, end: Index, strides: Index -> output: T",
           .attrs = "T: type; Index: {int16, int32, int64}; " + masks,
           .shape = strided_slice_shape,
           .grad = strided_slice_gradient,
           .kernels = {TUTTI_CPU(cpu::strided_slice_kernel())}});
  ops.add({.name = "StridedSliceGrad",
           .signature = "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T",
           .attrs = "T: type; Index: {int32, int64}; " + masks,
           .shape = shape::from_shape_input,
           .grad = strided_slice_grad_gradient,
           .kernels = {TUTTI_CPU(cpu::strided_slice_grad_kernel())}});
  ops.add({.name = "TensorStridedSliceUpdate",
           .signature = "input: T, begin: Index, end: Index, strides: Index, value: T -> output: T",
           .attrs = "T: type; Index: {int32, int64}; " + masks,
           .shape = shape::unchanged,
           .grad = strided_slice_update_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_strided_slice_update_kernel())}});
  ops.add({.name = "Pad",
           .signature = "input: T, paddings: Tpaddings -> output: T",
           .attrs = "T: type; Tpaddings: {int32, int64} = int32",
           .shape = pad_shape,
           .grad = pad_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::pad))}});
  ops.add({.name = "PadV2",
           .signature = "input: T, paddings: Tpaddings, constant_values: T -> output: T",
           .attrs = "T: type; Tpaddings: {int32, int64} = int32",
           .shape = pad_shape,
           .grad = pad_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::pad))}});
}

void add_rearrangements(OpTable& ops) {
  ops.add({.name = "Transpose",
           .signature = "x: T, perm: Tperm -> y: T",
           .attrs = "T: type; Tperm: {int32, int64} = int32",
           .shape = transpose_shape,
           .grad = transpose_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::transpose))}});
  ops.add({.name = "ConjugateTranspose",
           .signature = "x: T, perm: Tperm -> y: T",
           .attrs = "T: type; Tperm: {int32, int64} = int32",
           .shape = transpose_shape,
           .grad = conjugate_transpose_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::conjugate_transpose))}});
  ops.add({.name = "Tile",
           .signature = "input: T, multiples: Tmultiples -> output: T",
           .attrs = "T: type; Tmultiples: {int32, int64} = int32",
           .shape = tile_shape,
           .grad = tile_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::tile))}});
  ops.add({.name = "BroadcastTo",
           .signature = "input: T, shape: Tidx -> output: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32",
           .shape = broadcast_to_shape,
           .grad = broadcast_to_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::broadcast_to))}});
  ops.add({.name = "ReverseV2",
           .signature = "tensor: T, axis: Tidx -> output: T",
           .attrs = "Tidx: {int32, int64} = int32; T: type",
           .types = kReversible,
           .shape = shape::unchanged,
           .grad = reverse_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::reverse))}});
}

void add_fills(OpTable& ops) {
  ops.add({.name = "Fill",
           .signature = "dims: index_type, value: T -> output: T",
           .attrs = "T: type; index_type: {int32, int64} = int32",
           .shape = shape::from_shape_input,
           .grad = fill_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::fill))}});
  ops.add({.name = "ZerosLike",
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .shape = shape::unchanged,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::zeros_like))}});
  ops.add({.name = "OnesLike",
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = kPlain,
           .shape = shape::unchanged,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::ones_like))}});
  ops.add({.name = "OneHot",
           .signature = "indices: TI, depth: int32, on_value: T, off_value: T -> output: T",
           .attrs = "axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
           .shape = one_hot_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::one_hot_kernel())}});
  ops.add({.name = "Range",
           .signature = "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx",
           .attrs = "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32} = int32",
           .shape = range_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::range))}});
  ops.add({.name = "LinSpace",
           .signature = "start: T, stop: T, num: Tidx -> output: T",
           .attrs = "T: type; Tidx: {int32, int64} = int32",
           .types = kFloats,
           .shape = lin_space_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::lin_space))}});
}

void add_gathers(OpTable& ops) {
  ops.add({.name = "GatherV2",
           .signature = "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams",
           .attrs = "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, int64}",
           .shape = gather_v2_shape,
           .grad = gather_v2_grad,
           .kernels = {TUTTI_CPU(cpu::gather_v2_kernel())}});
  ops.add({.name = "Gather",
           .signature = "params: Tparams, indices: Tindices -> output: Tparams",
           .attrs = "validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}",
           .shape = gather_shape,
           .grad = gather_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::gather))}});
  ops.add({.name = "GatherNd",
           .signature = "params: Tparams, indices: Tindices -> output: Tparams",
           .attrs = "Tparams: type; Tindices: {int16, int32, int64}",
           .shape = gather_nd_shape,
           .grad = gather_nd_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::gather_nd))}});
  ops.add({.name = "ScatterNd",
           .signature = "indices: Tindices, updates: T, shape: Tindices -> output: T",
           .attrs = "T: type; Tindices: {int16, int32, int64}",
           .types = kPlain | DTypeSet{DType::kString},
           .shape = scatter_nd_shape,
           .grad = scatter_nd_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::scatter_nd))}});
  ops.add(
      {.name = "SparseToDense",
       .signature = "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T",
       .attrs = "validate_indices: bool = true; T: type; Tindices: {int32, int64}",
       .shape = sparse_to_dense_shape,
       .grad = sparse_to_dense_grad,
       .kernels = {TUTTI_CPU(cpu::sparse_to_dense_kernel())}});
  ops.add({.name = "Where",
           .signature = "input: T -> index: int64",
           .attrs = "T: type = bool",
           .types = kPlain,
           .shape = where_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::where))}});
  ops.add({.name = "Unique",
           .signature = "x: T -> y: T, idx: out_idx",
           .attrs = "T: type; out_idx: {int32, int64} = int32",
           .types = kReals | DTypeSet{DType::kBool, DType::kString},
           .shape = unique_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::unique))}});
  ops.add({.name = "ListDiff",
           .signature = "x: T, y: T -> out: T, idx: out_idx",
           .attrs = "T: type; out_idx: {int32, int64} = int32",
           .types = kReals | DTypeSet{DType::kBool, DType::kString},
           .shape = list_diff_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::list_diff))}});
}

void add_partitions(OpTable& ops) {
  ops.add({.name = "DynamicPartition",
           .signature = "data: T, partitions: int32 -> outputs: num_partitions * T",
           .attrs = "num_partitions: int >= 1; T: type",
           .shape = dynamic_partition_shape,
           .grad = dynamic_partition_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::dynamic_partition))}});
  for (const char* name : {"DynamicStitch", "ParallelDynamicStitch"}) {
    ops.add({.name = name,
             .signature = "indices: N * int32, data: N * T -> merged: T",
             .attrs = "N: int >= 1; T: type",
             .shape = dynamic_stitch_shape,
             .grad = dynamic_stitch_grad,
             .kernels = {TUTTI_CPU(kernel_from(cpu::dynamic_stitch))}});
  }
}

void add_segments(OpTable& ops) {
  ops.add({.name = "UnsortedSegmentSum",
           .signature = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
           .attrs = "T: type; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32",
           .types = kNumbers,
           .shape = unsorted_segment_shape,
           .grad = unsorted_segment_sum_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::unsorted_segment_sum))}});
  ops.add({.name = "SegmentSum",
           .signature = "data: T, segment_ids: Tindices -> output: T",
           .attrs = "T: type; Tindices: {int32, int64}",
           .types = kNumbers,
           .shape = segment_shape,
           .grad = segment_sum_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::segment_sum))}});
  ops.add({.name = "Cumsum",
           .signature = "x: T, axis: Tidx -> out: T",
           .attrs = "exclusive: bool = false; reverse: bool = false; T: type; Tidx: {int32, int64} = int32",
           .types = kNumbers,
           .shape = shape::unchanged,
           .grad = cumsum_grad,
           .kernels = {TUTTI_CPU(cpu::cumsum_kernel())}});
  ops.add({.name = "Cumprod",
           .signature = "x: T, axis: Tidx -> out: T",
           .attrs = "exclusive: bool = false; reverse: bool = false; T: type; Tidx: {int32, int64} = int32",
           .types = kNumbers,
           .shape = shape::unchanged,
           .grad = cumprod_grad,
           .kernels = {TUTTI_CPU(cpu::cumprod_kernel())}});
}

}  // namespace

void register_array_ops(OpTable& ops) {
  add_shape_readers(ops);
  add_shape_changers(ops);
  add_shape_arithmetic(ops);
  add_joins(ops);
  add_slices(ops);
  add_rearrangements(ops);
  add_block_ops(ops);
  add_fills(ops);
  add_gathers(ops);
  add_partitions(ops);
  add_segments(ops);
  add_diagonal_ops(ops);
  add_tensor_scatter_ops(ops);
  add_top_k_ops(ops);
  add_unique_ops(ops);
  add_sequence_ops(ops);
  add_patch_ops(ops);
}

}  // namespace tutti

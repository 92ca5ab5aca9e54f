#include "tutti/ops/internal/array_grads.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::internal {

namespace {

using Dims = std::vector<std::int64_t>;

Output ints(Graph& graph, const Dims& values, DType dtype) {
  if (dtype == DType::kInt64) return constant(graph, Tensor::vector<std::int64_t>(values));
  const std::vector<std::int32_t> narrow(values.begin(), values.end());
  return constant(graph, Tensor::vector<std::int32_t>(narrow));
}

Output int_scalar(Graph& graph, std::int64_t value, DType dtype = DType::kInt32) {
  return constant(graph, value, dtype);
}

Output as_type(Output x, DType dtype) { return x.dtype() == dtype ? x : op1("Cast", {x}, {{"DstT", dtype}}); }

bool fits(const PartialShape& shape, DType dtype) {
  if (!shape.fully_known()) return false;
  if (dtype == DType::kInt64) return true;
  for (const std::int64_t dim : shape.dims()) {
    if (dim > std::numeric_limits<std::int32_t>::max()) return false;
  }
  return true;
}

const Tensor* constant_value(Output x) {
  if (x.node->op_name() != "Const") return nullptr;
  return &x.node->attr<Tensor>("value");
}

std::optional<std::int64_t> constant_int(Output x) {
  const Tensor* value = constant_value(x);
  if (value == nullptr || value->num_elements() != 1) return std::nullopt;
  if (value->dtype() == DType::kInt32) return value->scalar<std::int32_t>();
  if (value->dtype() == DType::kInt64) return value->scalar<std::int64_t>();
  return std::nullopt;
}

// x[begin:end] of a vector.
Output part_of(Output vector, const Ints& begin, const Ints& size) { return slice(vector, begin, size); }

Output sum_all(Output x) {
  Graph& graph = x.graph();
  Output axes;
  if (x.shape().has_rank()) {
    Dims all(x.shape().rank());
    std::iota(all.begin(), all.end(), 0);
    axes = ints(graph, all, DType::kInt32);
  } else {
    axes = range(int_scalar(graph, 0), rank(x), int_scalar(graph, 1));
  }
  return op1("Sum", {x, axes});
}

}  // namespace

Output shape_value(Output x, DType dtype) {
  if (fits(x.shape(), dtype)) return ints(x.graph(), Dims(x.shape().dims().begin(), x.shape().dims().end()), dtype);
  return shape_of(x, dtype);
}

void pass_through_grad(GradContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, c.raw_grad(i));
}

void check_numerics_grad(GradContext& c) {
  c.set(0, check_numerics(c.grad(), "Not a number (NaN) or infinity (Inf) values detected in gradient. " +
                                        c.attr<std::string>("message")));
}

void prevent_gradient_grad(GradContext& c) {
  throw_error(not_found("Gradient explicitly disabled at ", c.node().describe(),
                        ". Reason: ", printable(c.attr<std::string>("message"))));
}

void reshape_like_input_grad(GradContext& c) {
  const PartialShape& known = c.input(0).shape();
  // One open dimension follows from the others: no need to read the input when the step runs.
  if (known.has_rank() && !known.fully_known() && known.rank() > 0) {
    Dims dims(known.dims().begin(), known.dims().end());
    const auto open = std::count(dims.begin(), dims.end(), kUnknownDim);
    const bool has_zero = std::find(dims.begin(), dims.end(), 0) != dims.end();
    if (open == 1 && !has_zero) {
      c.set(0, reshape(c.grad(), dims));
      return;
    }
  }
  c.set(0, reshape(c.grad(), shape_value(c.input(0))));
}

void transpose_grad(GradContext& c) { c.set(0, op1("Transpose", {c.grad(), op1("InvertPermutation", {c.input(1)})})); }
void conjugate_transpose_grad(GradContext& c) {
  c.set(0, op1("ConjugateTranspose", {c.grad(), op1("InvertPermutation", {c.input(1)})}));
}

namespace {

// The gradients of inputs [first, first + count) that were joined along `axis`.
void split_joined(GradContext& c, int first, int count, Output axis) {
  Graph& graph = c.graph();
  if (count == 1) {
    c.set(first, c.grad());
    return;
  }
  std::vector<Output> inputs{as_type(axis, DType::kInt32)};
  bool all_known = true;
  for (int i = 0; i < count; ++i) all_known &= fits(c.input(first + i).shape(), DType::kInt32);
  std::vector<Output> values;
  for (int i = 0; i < count; ++i) values.push_back(c.input(first + i));
  if (all_known) {
    for (const Output& value : values) inputs.push_back(shape_value(value));
  } else {
    Node* shapes = add_op(graph, "ShapeN", values);
    for (int i = 0; i < count; ++i) inputs.push_back(shapes->output(i));
  }
  Node* offsets = add_op(graph, "ConcatOffset", inputs);
  for (int i = 0; i < count; ++i) {
    if (c.needs(first + i)) c.set(first + i, slice(c.grad(), offsets->output(i), inputs[i + 1]));
  }
}

}  // namespace

void concat_grad(GradContext& c) { split_joined(c, 1, c.num_inputs() - 1, c.input(0)); }
void concat_v2_grad(GradContext& c) { split_joined(c, 0, c.num_inputs() - 1, c.input(c.num_inputs() - 1)); }

void pack_grad(GradContext& c) {
  const std::vector<Output> grads = unstack(c.grad(), c.attr<std::int64_t>("axis"), c.num_inputs());
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, grads[i]);
}

void unpack_grad(GradContext& c) {
  std::vector<Output> grads;
  for (int i = 0; i < c.node().num_outputs(); ++i) grads.push_back(c.grad(i));
  c.set(0, stack(grads, c.attr<std::int64_t>("axis")));
}

namespace {

Output join_grads(GradContext& c, Output axis) {
  std::vector<Output> grads;
  for (int i = 0; i < c.node().num_outputs(); ++i) grads.push_back(c.grad(i));
  if (grads.size() == 1) return grads[0];
  grads.push_back(axis);
  return op1("ConcatV2", grads);
}

}  // namespace

void split_grad(GradContext& c) { c.set(1, join_grads(c, c.input(0))); }
void split_v_grad(GradContext& c) { c.set(0, join_grads(c, c.input(2))); }

void slice_grad(GradContext& c) {
  Output begin = c.input(1);
  const DType dtype = begin.dtype();
  Output x = c.input(0);
  Output y = c.output(0);
  Output after = op1("Sub", {op1("Sub", {shape_value(x, dtype), shape_value(y, dtype)}), begin});
  c.set(0, op1("Pad", {c.grad(), stack({begin, after}, 1)}));
}

namespace {

AttrMap mask_attrs(GradContext& c) {
  AttrMap attrs;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    attrs.emplace(name, c.attr<std::int64_t>(name));
  }
  return attrs;
}

}  // namespace

void strided_slice_gradient(GradContext& c) {
  // The gradient op knows no int16.
  const DType dtype = c.input(1).dtype() == DType::kInt64 ? DType::kInt64 : DType::kInt32;
  c.set(0, op1("StridedSliceGrad",
               {shape_value(c.input(0), dtype), as_type(c.input(1), dtype), as_type(c.input(2), dtype),
                as_type(c.input(3), dtype), c.grad()},
               mask_attrs(c)));
}

void strided_slice_grad_gradient(GradContext& c) {
  c.set(4, op1("StridedSlice", {c.grad(), c.input(1), c.input(2), c.input(3)}, mask_attrs(c)));
}

void strided_slice_update_grad(GradContext& c) {
  const AttrMap masks = mask_attrs(c);
  const std::vector<Output> where{c.input(1), c.input(2), c.input(3)};
  const Output value = c.input(4);
  if (c.needs(0)) {
    c.set(0, op1("TensorStridedSliceUpdate", {c.grad(), where[0], where[1], where[2], zeros_like(value)}, masks));
  }
  if (c.needs(4)) {
    const Output slice = op1("StridedSlice", {c.grad(), where[0], where[1], where[2]}, masks);
    c.set(4, reshape(unbroadcast(slice, value, slice), shape_of(value)));
  }
}

void tile_grad(GradContext& c) {
  Graph& graph = c.graph();
  Output x = c.input(0);
  const DType dtype = c.input(1).dtype();
  Output x_shape = shape_value(x, dtype);
  // [multiple, size] of each dimension, one after the other; the sum goes over the multiples.
  Output pairs = reshape(transpose(stack({c.input(1), x_shape}), Ints{1, 0}), {-1});
  Output axes = range(int_scalar(graph, 0), size(pairs), int_scalar(graph, 2));
  Output sum = op1("Sum", {reshape(c.grad(), pairs), axes});
  c.set(0, reshape(sum, x_shape));
}

void fill_grad(GradContext& c) { c.set(1, sum_all(c.grad())); }

void broadcast_to_grad(GradContext& c) {
  Output x = c.input(0);
  const DType dtype = c.input(1).dtype();
  if (x.shape().fully_known() && x.shape() == c.output(0).shape()) {
    c.set(0, c.raw_grad(0));
    return;
  }
  Output x_shape = shape_value(x, dtype);
  Node* axes = add_op(c.graph(), "BroadcastGradientArgs", {x_shape, c.input(1)});
  c.set(0, reshape(op1("Sum", {c.grad(), axes->output(0)}), x_shape));
}

IndexedSlices gathered_rows(Output grad, Output indices, Output params_shape, const PartialShape& known_shape) {
  Graph& graph = grad.graph();
  Output flat_indices = indices.shape().rank() == 1 ? indices : reshape(indices, {-1});
  if (indices.shape().rank() == 1) return {grad, flat_indices, params_shape};
  // [number of indices] + params_shape[1:]
  Output count = reshape(size(indices, params_shape.dtype()), {1});
  Output row;
  if (known_shape.has_rank() && known_shape.rank() == 1) {
    row = ints(graph, {}, params_shape.dtype());
  } else {
    row = part_of(params_shape, {1}, {-1});
  }
  return {reshape(grad, concat({count, row}, 0)), flat_indices, params_shape};
}

void gather_grad(GradContext& c) {
  Output params = c.input(0);
  c.set(0, gathered_rows(c.grad(), c.input(1), shape_value(params), params.shape()));
}

namespace {

// A gather along another axis: bring it to the front, sum the rows, bring it back.
Output gather_along_axis_grad(GradContext& c, Output axis) {
  Graph& graph = c.graph();
  Output params = c.input(0);
  Output params_shape = shape_value(params);
  Output indices = reshape(c.input(1), {-1});
  Output rank_of_params = rank(params);
  Output zero = int_scalar(graph, 0);
  Output one = int_scalar(graph, 1);
  axis = op1("FloorMod", {as_type(axis, DType::kInt32), rank_of_params});
  Output axis_vector = reshape(axis, {1});
  Output outer = part_of(params_shape, {0}, axis_vector);
  Output inner_begin = op1("AddV2", {axis_vector, ints(graph, {1}, DType::kInt32)});
  Output inner = part_of(params_shape, inner_begin, {-1});
  Output count = reshape(size(indices), {1});

  // With the dimensions of indices as one, it lies at `axis`.
  Output values = reshape(c.grad(), concat({outer, count, inner}, 0));
  Output before = range(zero, axis, one);
  Output after = range(op1("AddV2", {axis, one}), rank_of_params, one);
  Output to_front = concat({axis_vector, before, after}, 0);
  Output rows = strided_slice(params_shape, axis_vector, inner_begin, {1}, {.shrink_axis_mask = 1});
  Output summed = unsorted_segment_sum(op1("Transpose", {values, to_front}), indices, rows);
  return op1("Transpose", {summed, op1("InvertPermutation", {to_front})});
}

// Table dimension `axis`, behind the batch dimensions and others, is brought to just behind the batch dimensions; then
// it is a batch of tables.
Output batched_axis_grad(GradContext& c, std::int64_t batch_dims) {
  Graph& graph = c.graph();
  Output params_shape = shape_value(c.input(0));
  Output rank_of_params = rank(c.input(0));
  Output zero = int_scalar(graph, 0), one = int_scalar(graph, 1), batch = int_scalar(graph, batch_dims);
  Output axis = op1("FloorMod", {as_type(c.input(2), DType::kInt32), rank_of_params});
  Output behind = op1("AddV2", {axis, one});
  Output axis_vector = reshape(axis, {1}), behind_vector = reshape(behind, {1});

  // With the dimensions of indices behind the batch as one, it lies at `axis`.
  Output count = reshape(op1("Prod", {part_of(shape_value(c.input(1)), {batch_dims}, {-1}), zero}), {1});
  Output outer = part_of(params_shape, {0}, axis_vector), inner = part_of(params_shape, behind_vector, {-1});
  Output values = reshape(c.grad(), concat({outer, count, inner}, 0));
  Output order =
      concat({range(zero, batch, one), axis_vector, range(batch, axis, one), range(behind, rank_of_params, one)}, 0);
  Output summed =
      batched_rows_sum(op1("Transpose", {values, order}), c.input(1), gather(params_shape, order), batch_dims);
  return op1("Transpose", {summed, op1("InvertPermutation", {order})});
}

}  // namespace

// Table b of the flattened batch starts at row b * N of one long table.
Output batched_rows_sum(Output grad, Output indices, Output params_shape, std::int64_t batch_dims) {
  Graph& graph = grad.graph();
  const DType index_type = indices.dtype() == DType::kInt16 ? DType::kInt32 : indices.dtype();
  Output batches = op1("Prod", {part_of(params_shape, {0}, {batch_dims}), int_scalar(graph, 0)});
  Output table_rows = strided_slice(params_shape, {batch_dims}, {batch_dims + 1}, {1}, {.shrink_axis_mask = 1});
  Output starts = op1("Mul", {range(int_scalar(graph, 0), batches, int_scalar(graph, 1)), table_rows});
  // Not -1: that cannot be told when there are no batches.
  Output count = op1("Prod", {part_of(shape_value(indices), {batch_dims}, {-1}), int_scalar(graph, 0)});
  Output by_batch = reshape(as_type(indices, index_type), stack({batches, count}));
  Output global = reshape(op1("AddV2", {by_batch, as_type(expand_dims(starts, 1), index_type)}), {-1});
  Output row = part_of(params_shape, {batch_dims + 1}, {-1});
  Output values = reshape(grad, concat({reshape(size(indices), {1}), row}, 0));
  Output total = op1("Mul", {batches, table_rows});
  return reshape(unsorted_segment_sum(values, global, total), params_shape);
}

std::int64_t batch_dims_of(GradContext& c) {
  const std::int64_t batch_dims = c.attr<std::int64_t>("batch_dims");
  if (batch_dims >= 0) return batch_dims;
  const PartialShape& indices = c.input(1).shape();
  if (indices.has_rank()) return batch_dims + indices.rank();
  throw_error(
      unimplemented(c.node().describe(), ": the gradient with batch_dims ", batch_dims, " needs the rank of indices"));
}

void gather_v2_grad(GradContext& c) {
  const std::int64_t batch_dims = batch_dims_of(c);
  const std::optional<std::int64_t> axis = constant_int(c.input(2));
  if (axis == 0 && batch_dims == 0) {
    gather_grad(c);
  } else if (batch_dims == 0) {
    c.set(0, gather_along_axis_grad(c, c.input(2)));
  } else if (axis == batch_dims) {
    c.set(0, batched_rows_sum(c.grad(), c.input(1), shape_value(c.input(0)), batch_dims));
  } else {
    c.set(0, batched_axis_grad(c, batch_dims));
  }
}

void gather_nd_grad(GradContext& c) {
  Output params = c.input(0);
  Output indices = c.input(1);
  const PartialShape& known = indices.shape();
  const DType index_type = indices.dtype();
  if (known.rank() == 2 && known.dim(1) == 1 && index_type != DType::kInt16) {
    c.set(0, IndexedSlices{c.grad(), squeeze(indices, {-1}), shape_value(params, index_type)});
    return;
  }
  const DType shape_type = index_type == DType::kInt16 ? DType::kInt32 : index_type;
  c.set(0, scatter_nd(as_type(indices, shape_type), c.grad(), shape_value(params, shape_type)));
}

void scatter_nd_grad(GradContext& c) { c.set(1, gather_nd(c.grad(), c.input(0))); }

void dynamic_partition_grad(GradContext& c) {
  Graph& graph = c.graph();
  Output data = c.input(0);
  Output partitions = c.input(1);
  // Which row each row of the outputs came from, found by dealing out the row numbers likewise.
  Output prefix = shape_value(partitions);
  Output count = size(partitions);
  Output rows = reshape(range(int_scalar(graph, 0), count, int_scalar(graph, 1)), prefix);
  const std::int64_t parts = c.attr<std::int64_t>("num_partitions");
  Node* origins = add_op(graph, "DynamicPartition", {rows, partitions}, {{"num_partitions", parts}});
  std::vector<Output> inputs;
  for (int i = 0; i < parts; ++i) inputs.push_back(origins->output(i));
  for (int i = 0; i < parts; ++i) inputs.push_back(c.grad(i));
  Output merged = op1("ParallelDynamicStitch", inputs, {{"N", parts}});
  c.set(0, reshape(merged, shape_value(data)));
}

void dynamic_stitch_grad(GradContext& c) {
  const int pairs = c.num_inputs() / 2;
  for (int i = 0; i < pairs; ++i) {
    if (c.needs(pairs + i)) c.set(pairs + i, gather(c.grad(), c.input(i)));
  }
}

void pad_grad(GradContext& c) {
  Output x = c.input(0);
  Output paddings = c.input(1);
  const DType dtype = paddings.dtype();
  Output first_column =
      strided_slice(paddings, {0, 0}, {0, 1}, {1, 1}, {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
  c.set(0, slice(c.grad(), first_column, shape_value(x, dtype)));
}

void reverse_grad(GradContext& c) { c.set(0, op1("ReverseV2", {c.grad(), c.input(1)})); }

void unsorted_segment_sum_grad(GradContext& c) {
  Graph& graph = c.graph();
  Output ids = c.input(1);
  Output grad = c.grad();
  Output zero = constant(graph, std::int64_t{0}, ids.dtype());
  Output gathered = gather(grad, op1("Maximum", {ids, zero}));
  // Rows whose id is negative were dropped: they get zeros.
  Output kept = op1("GreaterEqual", {ids, zero});
  Output ones_behind = op1("Sub", {rank(gathered), rank(kept)});
  Output wide = reshape(kept, concat({shape_value(kept), fill(reshape(ones_behind, {1}), int_scalar(graph, 1))}, 0));
  c.set(0, op1("SelectV2", {wide, gathered, zeros_like(gathered)}));
}

void segment_sum_grad(GradContext& c) { c.set(0, gather(c.grad(), c.input(1))); }

void sparse_to_dense_grad(GradContext& c) {
  Graph& graph = c.grad().graph();
  Output of_values = op1("GatherNd", {c.grad(), c.input(0)});
  const auto total = [&](Output x) {
    Output axes =
        op1("Range", {constant(graph, 0, DType::kInt32), op1("Rank", {x}), constant(graph, 1, DType::kInt32)});
    return op1("Sum", {x, axes});
  };
  c.set(2, of_values);
  c.set(3, op1("Sub", {total(c.grad()), total(of_values)}));
}

void cumsum_grad(GradContext& c) {
  c.set(0, op1("Cumsum", {c.grad(), c.input(1)},
               {{"exclusive", c.attr<bool>("exclusive")}, {"reverse", !c.attr<bool>("reverse")}}));
}

// Every running product that x went into, divided by x; where x is 0 that has no value, and is taken as 0.
void cumprod_grad(GradContext& c) {
  const AttrMap same = {{"exclusive", c.attr<bool>("exclusive")}, {"reverse", c.attr<bool>("reverse")}};
  const AttrMap back = {{"exclusive", c.attr<bool>("exclusive")}, {"reverse", !c.attr<bool>("reverse")}};
  Output x = c.input(0);
  Output axis = c.input(1);
  Output sums = op1("Cumsum", {op1("Mul", {op1("Cumprod", {x, axis}, same), c.grad()}), axis}, back);
  c.set(0, op1("DivNoNan", {sums, x}));
}

}  // namespace tutti::internal

// Ragged tensors, and sparse tensors as strings and variants.
#include <string>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/ragged.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/internal/serialize_sparse.h"
#include "tutti/ops/internal/sparse_families.h"
#include "tutti/ops/math.h"

namespace tutti::internal {

namespace {

// --- Shape rules. ---

Status three_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{3});
  return {};
}

Status many_three_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{kUnknownDim, 3});
  return {};
}

Status open_sparse_tensor_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{kUnknownDim, kUnknownDim});
  c.set_output(1, PartialShape{kUnknownDim});
  c.set_output(2, PartialShape{kUnknownDim});
  return {};
}

Status ragged_to_sparse_shape(ShapeContext& c) {
  const PartialShape& values = c.input(c.num_inputs() - 1);
  const std::int64_t rank = values.has_rank() ? values.rank() + c.num_inputs() - 1 : kUnknownDim;
  c.set_output(0, PartialShape{values.num_elements(), rank});
  c.set_output(1, PartialShape{values.num_elements()});
  c.set_output(2, PartialShape{rank});
  return {};
}

// Splits of open length, then values whose rows are like those of `values`.
Status set_ragged(ShapeContext& c, PartialShape values) {
  for (int i = 0; i + 1 < c.num_outputs(); ++i) c.set_output(i, PartialShape{kUnknownDim});
  if (values.rank() >= 1) values.set_dim(0, kUnknownDim);
  c.set_output(c.num_outputs() - 1, std::move(values));
  return {};
}

Status ragged_gather_shape(ShapeContext& c) { return set_ragged(c, c.input(c.num_inputs() - 2)); }
Status ragged_range_shape(ShapeContext& c) { return set_ragged(c, PartialShape{kUnknownDim}); }

Status ragged_to_tensor_shape(ShapeContext& c) {
  const PartialShape& values = c.input(1);
  std::int64_t depth = 0;
  for (const std::string& type : c.attr<std::vector<std::string>>("row_partition_types")) {
    depth += type != "FIRST_DIM_SIZE";
  }
  if (!values.has_rank() || values.rank() < 1) return {};
  std::vector<std::int64_t> dims(static_cast<std::size_t>(depth) + 1, kUnknownDim);
  dims.insert(dims.end(), values.dims().begin() + 1, values.dims().end());
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

// --- Gradients. ---

void ragged_to_sparse_grad(GradContext& c) {
  const int last = c.num_inputs() - 1;
  c.set(last, reshape(c.grad(1), Ints(shape_value(c.input(last)))));
}

// Which value each value of the output was: found by gathering their numbers.
void ragged_gather_grad(GradContext& c) {
  Graph& graph = c.graph();
  const int values_at = c.num_inputs() - 2;
  Output values = c.input(values_at), shape = shape_value(values);
  Output count = strided_slice(shape, {0}, {1}, {1}, {.shrink_axis_mask = 1});
  Output numbers = range(constant(graph, 0, DType::kInt32), count, constant(graph, 1, DType::kInt32));
  std::vector<Output> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(i == values_at ? numbers : c.input(i));
  const int last = c.node().num_outputs() - 1;
  Node* node = add_op(graph, "RaggedGather", inputs,
                      {{"PARAMS_RAGGED_RANK", std::int64_t{values_at}}, {"OUTPUT_RAGGED_RANK", std::int64_t{last}}});
  c.set(values_at, IndexedSlices{c.grad(last), node->output(last), shape});
}

// The rows of `x`, which is as `mask` with dimensions behind, where mask is true.
Output masked_rows(Output x, Output mask) {
  Graph& graph = x.graph();
  Output depth = rank(mask);
  Output behind = slice(shape_of(x), Ints(reshape(depth, {1})), {-1});
  Output flat = reshape(x, Ints(concat({constant(graph, Tensor::vector<std::int32_t>({-1})), behind}, 0)));
  return gather(flat, reshape(op1("Where", {reshape(mask, {-1})}), {-1}));
}

// Which value each element of the output came from is found by the same op on their numbers; -1 means the default.
void ragged_to_tensor_grad(GradContext& c) {
  Graph& graph = c.graph();
  const auto& types = c.attr<std::vector<std::string>>("row_partition_types");
  std::int64_t depth = 0;
  for (const std::string& type : types) depth += type != "FIRST_DIM_SIZE";
  Output grad = c.grad(), values = c.input(1), fill = c.input(2), shape = shape_value(values);
  Output count = strided_slice(shape, {0}, {1}, {1}, {.shrink_axis_mask = 1});
  Output numbers = range(constant(graph, 0, DType::kInt32), count, constant(graph, 1, DType::kInt32));
  std::vector<Output> inputs{slice(shape_of(grad), {0}, {1 + depth}), numbers, constant(graph, -1, DType::kInt32)};
  for (int i = 3; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  Output origin = op1(
      "RaggedTensorToTensor", inputs,
      {{"row_partition_types", types}, {"num_row_partition_tensors", static_cast<std::int64_t>(c.num_inputs()) - 3}});
  Output mask = not_equal(origin, constant(graph, -1, DType::kInt32));
  if (c.needs(1)) c.set(1, IndexedSlices{masked_rows(grad, mask), masked_rows(origin, mask), shape});
  if (c.needs(2)) {
    Output rest = masked_rows(grad, logical_not(mask));
    // The default was broadcast to the rows: summed over all that it was repeated along.
    Node* axes = add_op(graph, "BroadcastGradientArgs", {shape_of(fill), shape_of(rest)});
    c.set(2, reshape(reduce_sum(rest, Reduce(Ints(axes->output(0)))), Ints(shape_of(fill))));
  }
}

// --- Rows. ---

void add_serialized(OpTable& ops) {
  for (const bool many : {false, true}) {
    ops.add({.name = many ? "SerializeManySparse" : "SerializeSparse",
             .signature = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type",
             .attrs = "T: type; out_type: {string, variant} = string",
             .shape = many ? many_three_shape : three_shape,
             .kernels = {TUTTI_CPU(kernel_from(many ? serialize_many_sparse : serialize_sparse))}});
  }
  ops.add({.name = "DeserializeSparse",
           .signature = "serialized_sparse: Tserialized -> sparse_indices: int64, sparse_values: dtype, "
                        "sparse_shape: int64",
           .attrs = "dtype: type; Tserialized: {string, variant} = string",
           .shape = open_sparse_tensor_shape,
           .kernels = {TUTTI_CPU(kernel_from(deserialize_sparse))}});
  ops.add({.name = "DeserializeManySparse",
           .signature = "serialized_sparse: string -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
           .attrs = "dtype: type",
           .shape = open_sparse_tensor_shape,
           .kernels = {TUTTI_CPU(kernel_from(deserialize_many_sparse))}});
}

}  // namespace

void add_ragged_ops(OpTable& ops) {
  add_serialized(ops);
  ops.add({.name = "RaggedTensorToTensor",
           .signature =
               "shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * "
               "Tindex -> result: T",
           .attrs = "T: type; Tindex: {int64, int32}; Tshape: {int64, int32}; num_row_partition_tensors: int >= 1; "
                    "row_partition_types: list(string)",
           .shape = ragged_to_tensor_shape,
           .grad = ragged_to_tensor_grad,
           .kernels = {TUTTI_CPU(cpu::ragged_tensor_to_tensor_kernel())}});
  ops.add({.name = "RaggedGather",
           .signature = "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: "
                        "Tindices -> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
           .attrs = "Tvalues: type; Tindices: {int32, int64}; Tsplits: {int32, int64} = int64; PARAMS_RAGGED_RANK: int "
                    ">= 1; OUTPUT_RAGGED_RANK: int >= 0",
           .shape = ragged_gather_shape,
           .grad = ragged_gather_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::ragged_gather))}});
  ops.add(
      {.name = "RaggedRange",
       .signature = "starts: T, limits: T, deltas: T -> rt_nested_splits: Tsplits, rt_dense_values: T",
       .attrs = "T: {bfloat16, float, double, int32, int64} = int32; Tsplits: {int32, int64} = int64",
       .shape = ragged_range_shape,
       .no_gradient = true,
       .kernels = {TUTTI_CPU(kernel_from(cpu::ragged_range), kIndexTypes | DTypeSet{DType::kFloat, DType::kDouble})}});
  ops.add({.name = "RaggedTensorToSparse",
           .signature = "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T -> sparse_indices: int64, "
                        "sparse_values: T, sparse_dense_shape: int64",
           .attrs = "RAGGED_RANK: int >= 1; T: type; Tsplits: {int32, int64} = int64",
           .shape = ragged_to_sparse_shape,
           .grad = ragged_to_sparse_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::ragged_tensor_to_sparse))}});
}

}  // namespace tutti::internal

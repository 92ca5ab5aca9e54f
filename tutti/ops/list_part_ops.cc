// Rows of what gathers items of tensor lists, scatters into them, puts them together and cuts tensors into them.
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/list_parts.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/families.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

// --- Shapes. ---

Status list_gather_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape indices, c.with_rank(1, 1));
  const PartialShape each = c.input_as_shape(2);
  if (!each.has_rank()) return {};
  std::vector<std::int64_t> dims{indices.dim(0)};
  dims.insert(dims.end(), each.dims().begin(), each.dims().end());
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

// The first dimension is what the items add up to.
Status concat_of(ShapeContext& c, const PartialShape& each) {
  c.set_output(1, PartialShape::unknown_of_rank(1));
  if (!each.has_rank()) return {};
  if (each.rank() < 1) return invalid_argument("element_shape must have at least one dimension");
  PartialShape joined = each;
  joined.set_dim(0, kUnknownDim);
  c.set_output(0, std::move(joined));
  return {};
}

Status list_concat_shape(ShapeContext& c) { return concat_of(c, c.attr<PartialShape>("element_shape")); }
Status list_concat_v2_shape(ShapeContext& c) { return concat_of(c, c.input_as_shape(1)); }

Status list_like_first_shape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  return {};
}

// --- Gradients. ---

AttrMap list_dtype(GradContext& c) { return {{"element_dtype", c.attr<DType>("element_dtype")}}; }

AttrMap list_dtype_int32_shape(GradContext& c) {
  AttrMap attrs = list_dtype(c);
  attrs.emplace("shape_type", DType::kInt32);
  return attrs;
}

// The shape of the rows of `tensor`.
Output row_shape(Output tensor) { return slice(shape_of(tensor), Ints{1}, Ints{-1}); }

Output gathered(GradContext& c, Output indices, Output tensor) {
  return op1("TensorListGather", {c.grad(), indices, row_shape(tensor)}, list_dtype(c));
}

Output element_shape_of(Output list) { return op1("TensorListElementShape", {list}, {{"shape_type", DType::kInt32}}); }

void list_gather_grad(GradContext& c) {
  Output count = op1("TensorListLength", {c.input(0)});
  Output empty = op1("TensorListReserve", {element_shape_of(c.input(0)), count}, list_dtype_int32_shape(c));
  c.set(0, op1("TensorListScatterIntoExistingList", {empty, c.grad(), c.input(1)}, list_dtype(c)));
}

void list_scatter_grad(GradContext& c) { c.set(0, gathered(c, c.input(1), c.input(0))); }

void list_scatter_into_grad(GradContext& c) {
  Output tensor = c.input(1);
  Output indices = c.input(2);
  c.set(1, gathered(c, indices, tensor));
  c.set(0, op1("TensorListScatterIntoExistingList", {c.grad(), zeros_like(tensor), indices}, list_dtype(c)));
}

void list_split_grad(GradContext& c) {
  Output tensor = c.input(0);
  Output element_shape = concat({constant(c.graph(), Tensor::vector<std::int32_t>({-1})), row_shape(tensor)}, 0);
  Node* joined =
      add_op(c.graph(), "TensorListConcatV2", {c.grad(), element_shape, c.input(2)}, list_dtype_int32_shape(c));
  c.set(0, joined->output(0));
}

void list_concat_grad(GradContext& c) {
  c.set(0, op1("TensorListSplit", {c.grad(0), element_shape_of(c.input(0)), c.output(1)}, list_dtype_int32_shape(c)));
}

void list_resize_grad(GradContext& c) {
  Output count = op1("TensorListLength", {c.input(0)});
  c.set(0, op1("TensorListResize", {c.grad(), count}));
}

// --- Rows. ---

const char* const kWithShapeType = "element_dtype: type; shape_type: {int32, int64}";

void add_scatters(OpTable& ops) {
  ops.add({.name = "TensorListGather",
           .signature = "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype",
           .attrs = "element_dtype: type",
           .shape = list_gather_shape,
           .grad = list_gather_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_gather_kernel())}});
  ops.add({.name = "TensorListScatter",
           .signature = "tensor: element_dtype, indices: int32, element_shape: shape_type -> output_handle: variant",
           .attrs = kWithShapeType,
           .shape = shape::scalar,
           .grad = list_scatter_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_scatter_kernel())}});
  ops.add({.name = "TensorListScatterV2",
           .signature = "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 -> "
                        "output_handle: variant",
           .attrs = kWithShapeType,
           .shape = shape::scalar,
           .grad = list_scatter_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_scatter_kernel())}});
  ops.add({.name = "TensorListScatterIntoExistingList",
           .signature = "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant",
           .attrs = "element_dtype: type",
           .shape = shape::scalar,
           .grad = list_scatter_into_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_scatter_into_kernel())}});
  ops.add({.name = "TensorListResize",
           .signature = "input_handle: variant, size: int32 -> output_handle: variant",
           .shape = shape::scalar,
           .grad = list_resize_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::tensor_list_resize))}});
}

void add_joins(OpTable& ops) {
  ops.add({.name = "TensorListConcat",
           .signature = "input_handle: variant -> tensor: element_dtype, lengths: int64",
           .attrs = "element_dtype: type; element_shape: shape = unknown",
           .shape = list_concat_shape,
           .grad = list_concat_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_concat_kernel())}});
  ops.add({.name = "TensorListConcatV2",
           .signature = "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> "
                        "tensor: element_dtype, lengths: int64",
           .attrs = kWithShapeType,
           .shape = list_concat_v2_shape,
           .grad = list_concat_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_concat_kernel())}});
  ops.add({.name = "TensorListSplit",
           .signature = "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
           .attrs = kWithShapeType,
           .shape = shape::scalar,
           .grad = list_split_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_split_kernel())}});
  ops.add({.name = "TensorListConcatLists",
           .signature = "input_a: variant, input_b: variant -> output: variant",
           .attrs = "element_dtype: type",
           .shape = list_like_first_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::tensor_list_concat_lists_kernel())}});
  ops.add({.name = "TensorListPushBackBatch",
           .signature = "input_handles: variant, tensor: element_dtype -> output_handles: variant",
           .attrs = "element_dtype: type",
           .shape = list_like_first_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::tensor_list_push_back_batch_kernel())}});
}

}  // namespace

void register_list_part_ops(OpTable& ops) {
  add_scatters(ops);
  add_joins(ops);
}

}  // namespace tutti

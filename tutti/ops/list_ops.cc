// Tensor lists (values) and stacks (state of a step): what loops and their gradients keep tensors in.
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/lists.h"
#include "tutti/kernels/cpu/tensor_arrays.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

// --- Shapes. ---

Status pop_back_shape(ShapeContext& c) {
  c.set_output(0, PartialShape::scalar());
  c.set_output(1, c.input_as_shape(1));
  return {};
}

Status get_item_shape(ShapeContext& c) {
  c.set_output(0, c.input_as_shape(2));
  return {};
}

Status stack_shape(ShapeContext& c) {
  const PartialShape each = c.input_as_shape(1);
  if (!each.has_rank()) return {};
  const std::int64_t count = c.attr<std::int64_t>("num_elements");
  std::vector<std::int64_t> dims{count >= 0 ? count : kUnknownDim};
  dims.insert(dims.end(), each.dims().begin(), each.dims().end());
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

Status from_tensor_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank_at_least(0, 1).status());
  return shape::scalar(c);
}

Status push_shape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return {};
}

// --- Gradients. ---

// `shape` as an element_shape input: -1 where open, a scalar -1 when nothing is known.
Output element_shape_value(Graph& graph, const PartialShape& shape) {
  if (!shape.has_rank()) return constant(graph, Tensor::scalar(std::int32_t{-1}));
  return Ints(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())).in(graph);
}

PartialShape without_first(const PartialShape& shape) {
  if (shape.rank() < 1) return {};
  return PartialShape(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

AttrMap element_dtype(GradContext& c) { return {{"element_dtype", c.attr<DType>("element_dtype")}}; }

void push_back_grad(GradContext& c) {
  Output element_shape = element_shape_value(c.graph(), c.input(1).shape());
  Node* popped = add_op(c.graph(), "TensorListPopBack", {c.grad(), element_shape}, element_dtype(c));
  c.set(0, popped->output(0));
  c.set(1, popped->output(1));
}

// Where nothing flows into the rest of the list, its gradient is as many zeros as it has items.
void pop_back_grad(GradContext& c) { c.set(0, op1("TensorListPushBack", {c.grad(0), c.grad(1)})); }

void get_item_grad(GradContext& c) {
  Output element_shape = op1("TensorListElementShape", {c.input(0)}, {{"shape_type", DType::kInt32}});
  Output count = op1("TensorListLength", {c.input(0)});
  Output zeros = op1("TensorListReserve", {element_shape, count}, element_dtype(c));
  c.set(0, op1("TensorListSetItem", {zeros, c.input(1), c.grad()}));
}

void set_item_grad(GradContext& c) {
  Output index = c.input(1);
  Output item = c.input(2);
  c.set(0, op1("TensorListSetItem", {c.grad(), index, zeros_like(item)}));
  c.set(2, op1("TensorListGetItem", {c.grad(), index, element_shape_value(c.graph(), item.shape())}, element_dtype(c)));
}

void list_stack_grad(GradContext& c) {
  Output element_shape = element_shape_value(c.graph(), without_first(c.grad().shape()));
  c.set(0, op1("TensorListFromTensor", {c.grad(), element_shape}, element_dtype(c)));
}

void from_tensor_grad(GradContext& c) {
  const PartialShape& tensor = c.input(0).shape();
  AttrMap attrs = element_dtype(c);
  attrs.emplace("num_elements", tensor.rank() >= 1 ? tensor.dim(0) : kUnknownDim);
  c.set(0, op1("TensorListStack", {c.grad(), element_shape_value(c.graph(), without_first(tensor))}, attrs));
}

// --- Gradients of tensor arrays: what is read is written to the array of gradients, and the other way round. The flow
// carries the order: its gradient goes through every write before anything is read. ---

// The array of gradients of the array in input 0, and the flow after finding it. All gradients of one call of
// gradients() share an array: the name scope that the call opened tells them from others.
Node* gradient_array(GradContext& c, Output flow) {
  const std::string scope = c.graph().current_name_scope();
  std::string source = "gradients";
  std::size_t at = 0;
  for (std::string_view part : str_split(scope, '/')) {
    at += part.size();
    if (part.starts_with("gradients")) source = scope.substr(0, at);
    ++at;
  }
  return add_op(c.graph(), "TensorArrayGradV3", {c.input(0), flow}, {{"source", source}});
}

void array_read_grad(GradContext& c) {
  Node* array = gradient_array(c, c.input(2));
  c.set(2, op1("TensorArrayWriteV3", {array->output(0), c.input(1), c.grad(), array->output(1)}));
}

void array_gather_grad(GradContext& c) {
  Node* array = gradient_array(c, c.input(2));
  c.set(2, op1("TensorArrayScatterV3", {array->output(0), c.input(1), c.grad(), array->output(1)}));
}

void array_concat_grad(GradContext& c) {
  Node* array = gradient_array(c, c.input(1));
  c.set(1, op1("TensorArraySplitV3", {array->output(0), c.grad(0), c.output(1), array->output(1)}));
}

void array_write_grad(GradContext& c) {
  Node* array = gradient_array(c, c.grad());
  const AttrMap attrs = {{"dtype", c.attr<DType>("T")}};
  c.set(2, op1("TensorArrayReadV3", {array->output(0), c.input(1), array->output(1)}, attrs));
  c.set(3, c.grad());
}

void array_scatter_grad(GradContext& c) {
  Node* array = gradient_array(c, c.grad());
  const AttrMap attrs = {{"dtype", c.attr<DType>("T")}};
  c.set(2, op1("TensorArrayGatherV3", {array->output(0), c.input(1), array->output(1)}, attrs));
  c.set(3, c.grad());
}

void array_split_grad(GradContext& c) {
  Node* array = gradient_array(c, c.grad());
  const AttrMap attrs = {{"dtype", c.attr<DType>("T")}};
  c.set(1, op1("TensorArrayConcatV3", {array->output(0), array->output(1)}, attrs));
  c.set(3, c.grad());
}

// --- Rows. ---

void add_stacks(OpTable& ops) {
  ops.add({.name = "StackV2",
           .signature = "max_size: int32 -> handle: resource",
           .attrs = "elem_type: type; stack_name: string = ''",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::stack_kernel())}});
  ops.add({.name = "StackPushV2",
           .signature = "handle: resource, elem: T -> output: T",
           .attrs = "T: type; swap_memory: bool = false",
           .shape = push_shape,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::stack_push))}});
  ops.add({.name = "StackPopV2",
           .signature = "handle: resource -> elem: elem_type",
           .attrs = "elem_type: type",
           .shape = shape::none,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::stack_pop_kernel())}});
  ops.add({.name = "StackCloseV2",
           .signature = "handle: resource ->",
           .shape = shape::none,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::stack_close))}});
}

void add_list_makers(OpTable& ops) {
  ops.add({.name = "EmptyTensorList",
           .signature = "element_shape: shape_type, max_num_elements: int32 -> handle: variant",
           .attrs = "element_dtype: type; shape_type: {int32, int64}",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::empty_tensor_list_kernel())}});
  ops.add({.name = "TensorListReserve",
           .signature = "element_shape: shape_type, num_elements: int32 -> handle: variant",
           .attrs = "element_dtype: type; shape_type: {int32, int64}",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::tensor_list_reserve_kernel())}});
  ops.add({.name = "TensorListFromTensor",
           .signature = "tensor: element_dtype, element_shape: shape_type -> output_handle: variant",
           .attrs = "element_dtype: type; shape_type: {int32, int64}",
           .shape = from_tensor_shape,
           .grad = from_tensor_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_from_tensor_kernel())}});
}

void add_list_users(OpTable& ops) {
  ops.add({.name = "TensorListPushBack",
           .signature = "input_handle: variant, tensor: element_dtype -> output_handle: variant",
           .attrs = "element_dtype: type",
           .shape = shape::scalar,
           .grad = push_back_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_push_back_kernel())}});
  ops.add({.name = "TensorListPopBack",
           .signature = "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype",
           .attrs = "element_dtype: type",
           .shape = pop_back_shape,
           .grad = pop_back_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_pop_back_kernel())}});
  ops.add({.name = "TensorListSetItem",
           .signature = "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
           .attrs = "element_dtype: type; resize_if_index_out_of_bounds: bool = false",
           .shape = shape::scalar,
           .grad = set_item_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_set_item_kernel())}});
  ops.add({.name = "TensorListGetItem",
           .signature = "input_handle: variant, index: int32, element_shape: int32 -> item: element_dtype",
           .attrs = "element_dtype: type",
           .shape = get_item_shape,
           .grad = get_item_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_get_item_kernel())}});
  ops.add({.name = "TensorListStack",
           .signature = "input_handle: variant, element_shape: int32 -> tensor: element_dtype",
           .attrs = "element_dtype: type; num_elements: int = -1",
           .shape = stack_shape,
           .grad = list_stack_grad,
           .kernels = {TUTTI_CPU(cpu::tensor_list_stack_kernel())}});
  ops.add({.name = "TensorListLength",
           .signature = "input_handle: variant -> length: int32",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::tensor_list_length))}});
  ops.add({.name = "TensorListElementShape",
           .signature = "input_handle: variant -> element_shape: shape_type",
           .attrs = "shape_type: {int32, int64}",
           .shape = shape::none,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::tensor_list_element_shape))}});
}

Status array_concat_shape(ShapeContext& c) {
  c.set_output(1, {kUnknownDim});  // the lengths
  return {};
}

OpRow array_row(std::string name, std::string signature, std::string attrs, KernelFactory kernel, GradFn grad = nullptr,
                ShapeFn shape = shape::none) {
  const bool no_gradient = !grad;
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .grad = std::move(grad),
          .no_gradient = no_gradient,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

void add_tensor_arrays(OpTable& ops) {
  ops.add(array_row("TensorArrayV3", "size: int32 -> handle: resource, flow: float",
                    "dtype: type; element_shape: shape = unknown; dynamic_size: bool = false; "
                    "clear_after_read: bool = true; identical_element_shapes: bool = false; "
                    "tensor_array_name: string = ''",
                    cpu::tensor_array_kernel()));
  ops.add(array_row("TensorArrayGradV3", "handle: resource, flow_in: float -> grad_handle: resource, flow_out: float",
                    "source: string", cpu::tensor_array_grad_kernel()));
  ops.add(array_row("TensorArrayGradWithShape",
                    "handle: resource, flow_in: float, shape_to_prepend: int32 -> grad_handle: resource, "
                    "flow_out: float",
                    "source: string", cpu::tensor_array_grad_kernel()));
  ops.add(array_row("TensorArrayWriteV3", "handle: resource, index: int32, value: T, flow_in: float -> flow_out: float",
                    "T: type", kernel_from(cpu::tensor_array_write), array_write_grad));
  ops.add(array_row("TensorArrayReadV3", "handle: resource, index: int32, flow_in: float -> value: dtype",
                    "dtype: type", cpu::tensor_array_read_kernel(), array_read_grad));
  ops.add(array_row("TensorArrayGatherV3", "handle: resource, indices: int32, flow_in: float -> value: dtype",
                    "dtype: type; element_shape: shape = unknown", cpu::tensor_array_gather_kernel(),
                    array_gather_grad));
  ops.add(array_row("TensorArrayScatterV3",
                    "handle: resource, indices: int32, value: T, flow_in: float -> flow_out: float", "T: type",
                    kernel_from(cpu::tensor_array_scatter), array_scatter_grad));
  ops.add(array_row("TensorArrayConcatV3", "handle: resource, flow_in: float -> value: dtype, lengths: int64",
                    "dtype: type; element_shape_except0: shape = unknown", cpu::tensor_array_concat_kernel(),
                    array_concat_grad, array_concat_shape));
  ops.add(array_row("TensorArraySplitV3",
                    "handle: resource, value: T, lengths: int64, flow_in: float -> flow_out: float", "T: type",
                    kernel_from(cpu::tensor_array_split), array_split_grad));
  ops.add(array_row("TensorArraySizeV3", "handle: resource, flow_in: float -> size: int32", "",
                    kernel_from(cpu::tensor_array_size), nullptr, shape::scalar));
  ops.add(array_row("TensorArrayCloseV3", "handle: resource ->", "", kernel_from(cpu::tensor_array_close)));
}

}  // namespace

void register_list_ops(OpTable& ops) {
  add_stacks(ops);
  add_tensor_arrays(ops);
  add_list_makers(ops);
  add_list_users(ops);
}

}  // namespace tutti

// Rows of pools.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/pooling.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/window_shapes.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

constexpr DTypeSet kPoolTypes =
    kFloats | DTypeSet{DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt16, DType::kInt8, DType::kUint16};

// --- Shapes. ---

using List = std::vector<std::int64_t>;

// Attribute `name`, or the value of input i where the op has none; nothing when that is not known.
Result<std::optional<List>> known_list(ShapeContext& c, std::string_view name, int i) {
  if (const AttrValue* attr = c.node().find_attr(name)) return std::optional<List>(*attr->get<List>());
  TUTTI_RETURN_IF_ERROR(c.with_rank(i, 1).status());
  std::optional<Tensor> value = c.constant(i);
  if (!value) return std::optional<List>();
  cpu::DimList list;
  TUTTI_RETURN_IF_ERROR(cpu::read_dims(*value, name, &list));
  return std::optional<List>(List(list.span().begin(), list.span().end()));
}

// The shape of input 0 pooled; ksize and strides are attributes or inputs from `first` on.
Result<PartialShape> pooled_shape(ShapeContext& c, int first) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank(0, 4));
  AttrMap others = c.node().attrs();
  others.erase("strides");
  TUTTI_ASSIGN_OR_RETURN(cpu::WindowAttrs attrs, cpu::read_window_attrs(others));
  TUTTI_ASSIGN_OR_RETURN(std::optional<List> ksize, known_list(c, "ksize", first));
  TUTTI_ASSIGN_OR_RETURN(std::optional<List> strides, known_list(c, "strides", first + 1));
  if (!ksize || !strides) {
    PartialShape output = PartialShape::unknown_of_rank(4);
    output.set_dim(0, input.dim(0));
    return output;
  }
  if (ksize->size() != 4 || strides->size() != 4) {
    return invalid_argument("ksize and strides must have 4 elements, got ", ksize->size(), " and ", strides->size());
  }
  for (std::size_t i = 0; i < 4; ++i) {
    if ((*ksize)[i] < 1 || (*strides)[i] < 1) {
      return invalid_argument("ksize and strides must be > 0, got ", (*ksize)[i], " and ", (*strides)[i]);
    }
  }
  const std::size_t channel = static_cast<std::size_t>(attrs.channel_dim());
  std::int64_t channels = input.dim(attrs.channel_dim());
  if (channels != kUnknownDim) channels /= (*ksize)[channel];
  std::array<std::int64_t, 2> kernel{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::size_t d = static_cast<std::size_t>(attrs.spatial_dim(static_cast<int>(axis)));
    kernel[axis] = (*ksize)[d];
    attrs.stride[axis] = (*strides)[d];
  }
  return internal::windowed_shape(attrs, input, kernel, channels);
}

// Every output has the pooled shape.
Status pool_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape output, pooled_shape(c, 1));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, output);
  return {};
}

Status like_first(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank(0, 4));
  c.set_output(0, std::move(input));
  return {};
}

// And the sum of each channel, the last dimension.
Status like_first_with_sums(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(like_first(c));
  c.set_output(1, PartialShape({c.input(0).rank() == 4 ? c.input(0).dim(3) : kUnknownDim}));
  return {};
}

Status pooled_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape output, pooled_shape(c, 3));
  c.set_output(0, std::move(output));
  return {};
}

Status avg_pool_grad_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  const PartialShape sizes = c.input_as_shape(0);
  Result<PartialShape> output = sizes.merge(PartialShape::unknown_of_rank(4));
  if (!output.ok()) return invalid_argument("orig_input_shape must have 4 elements, got ", sizes.rank());
  c.set_output(0, *std::move(output));
  return {};
}

// --- Gradients. ---

AttrMap pool_attrs(GradContext& g) {
  AttrMap attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "explicit_paddings", "data_format", "include_batch_in_index"}) {
    if (const AttrValue* value = g.node().find_attr(name)) attrs[name] = *value;
  }
  return attrs;
}

// The sizes that a V2 op has as inputs from `first` on.
std::vector<Output> with_sizes(GradContext& g, std::vector<Output> inputs, int first) {
  for (int i = first; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  return inputs;
}

GradFn max_pool_grad(const std::string& version) {
  return [version](GradContext& g) {
    g.set(0, op1("MaxPoolGrad" + version, with_sizes(g, {g.input(0), g.output(0), g.grad()}, 1), pool_attrs(g)));
  };
}

// Linear in the third input; where the maximum lies does not change with the first two. `op` is its transpose.
GradFn linear_in_grad(const std::string& op) {
  return [op](GradContext& g) {
    for (int i : {0, 1}) {
      if (g.needs(i)) g.set(i, zeros_like(g.input(i)));
    }
    if (!g.needs(2)) return;
    AttrMap attrs = pool_attrs(g);
    // The transpose in one direction has no explicit paddings; kernels refuse what it cannot say.
    const bool takes_paddings = op == "MaxPoolGrad";
    if (!takes_paddings) {
      if (attrs["padding"] == AttrValue("EXPLICIT")) {
        throw_error(unimplemented(g.node().op_name(), ": no second derivative with explicit paddings"));
      }
      attrs.erase("explicit_paddings");
    }
    g.set(2, op1(op, with_sizes(g, {g.input(0), g.input(1), g.grad()}, 3), std::move(attrs)));
  };
}

void avg_pool_grad(GradContext& g) {
  g.set(0, op1("AvgPoolGrad", {internal::known_shape_of(g.input(0)), g.grad()}, pool_attrs(g)));
}

void avg_pool_grad_grad(GradContext& g) {
  if (g.needs(1)) g.set(1, op1("AvgPool", {g.grad()}, pool_attrs(g)));
}

void argmax_grad(GradContext& g) {
  g.set(0, op1("MaxPoolGradWithArgmax", {g.input(0), g.grad(), g.output(1)}, pool_attrs(g)));
}

// Of (input, grad, argmax), linear in grad. `op` is its transpose.
GradFn by_argmax_grad(const std::string& op) {
  return [op](GradContext& g) {
    if (g.needs(0)) g.set(0, zeros_like(g.input(0)));
    if (g.needs(1)) g.set(1, op1(op, {g.input(0), g.grad(), g.input(2)}, pool_attrs(g)));
  };
}

// --- Rows. ---

std::string with_paddings(std::string_view formats) {
  return str_cat("T: type = float; ksize: list(int) >= 4; strides: list(int) >= 4; ",
                 "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: ", formats,
                 " = 'NHWC'");
}
const char* const kPlainWindow =
    "T: type; ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'";
const char* const kSizesAsInputs =
    "T: type = float; padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'";

void register_max_pools(OpTable& ops) {
  ops.add({.name = "MaxPool",
           .signature = "input: T -> output: T",
           .attrs = with_paddings("{'NHWC', 'NCHW'}"),
           .types = kPoolTypes,
           .shape = pool_shape,
           .grad = max_pool_grad(""),
           .kernels = {TUTTI_CPU(cpu::max_pool_kernel())}});
  ops.add({.name = "MaxPoolV2",
           .signature = "input: T, ksize: int32, strides: int32 -> output: T",
           .attrs = kSizesAsInputs,
           .types = kPoolTypes,
           .shape = pool_shape,
           .grad = max_pool_grad("V2"),
           .kernels = {TUTTI_CPU(cpu::max_pool_kernel())}});
  const std::string grads = "orig_input: T, orig_output: T, grad: T";
  ops.add({.name = "MaxPoolGrad",
           .signature = grads + " -> output: T",
           .attrs = with_paddings("{'NHWC', 'NCHW'}"),
           .types = kReals,
           .shape = like_first,
           .grad = linear_in_grad("MaxPoolGradGrad"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_kernel())}});
  ops.add({.name = "_MaxPoolReluGrad",
           .signature = grads + " -> output: T, sums: T",
           .attrs = with_paddings("{'NHWC'}"),
           .types = kFloats,
           .shape = like_first_with_sums,
           .kernels = {TUTTI_CPU(cpu::max_pool_relu_grad_kernel())}});
  ops.add({.name = "MaxPoolGradV2",
           .signature = grads + ", ksize: int32, strides: int32 -> output: T",
           .attrs = kSizesAsInputs,
           .types = kReals,
           .shape = like_first,
           .grad = linear_in_grad("MaxPoolGradGradV2"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_kernel())}});
  ops.add({.name = "MaxPoolGradGrad",
           .signature = grads + " -> output: T",
           .attrs = kPlainWindow,
           .types = kReals,
           .shape = pooled_grad_shape,
           .grad = linear_in_grad("MaxPoolGrad"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_grad_kernel())}});
  ops.add({.name = "MaxPoolGradGradV2",
           .signature = grads + ", ksize: int32, strides: int32 -> output: T",
           .attrs = "T: type; padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
           .types = kReals,
           .shape = pooled_grad_shape,
           .grad = linear_in_grad("MaxPoolGradV2"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_grad_kernel())}});
}

void register_argmax_pools(OpTable& ops) {
  const std::string window =
      "T: type; ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
      "include_batch_in_index: bool = false";
  ops.add({.name = "MaxPoolWithArgmax",
           .signature = "input: T -> output: T, argmax: Targmax",
           .attrs = window + "; Targmax: {int32, int64} = int64",
           .types = kReals,
           .shape = pool_shape,
           .grad = argmax_grad,
           .kernels = {TUTTI_CPU(cpu::max_pool_with_argmax_kernel())}});
  ops.add({.name = "MaxPoolGradWithArgmax",
           .signature = "input: T, grad: T, argmax: Targmax -> output: T",
           .attrs = window + "; Targmax: {int32, int64}",
           .types = kReals,
           .shape = like_first,
           .grad = by_argmax_grad("MaxPoolGradGradWithArgmax"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_with_argmax_kernel())}});
  ops.add({.name = "MaxPoolGradGradWithArgmax",
           .signature = "input: T, grad: T, argmax: Targmax -> output: T",
           .attrs = window + "; Targmax: {int32, int64}",
           .types = kReals,
           .shape = pooled_grad_shape,
           .grad = by_argmax_grad("MaxPoolGradWithArgmax"),
           .kernels = {TUTTI_CPU(cpu::max_pool_grad_grad_with_argmax_kernel())}});
}

void register_avg_pools(OpTable& ops) {
  ops.add({.name = "AvgPool",
           .signature = "value: T -> output: T",
           .attrs = kPlainWindow,
           .types = kFloats,
           .shape = pool_shape,
           .grad = avg_pool_grad,
           .kernels = {TUTTI_CPU(cpu::avg_pool_kernel())}});
  ops.add({.name = "AvgPoolGrad",
           .signature = "orig_input_shape: int32, grad: T -> output: T",
           .attrs = kPlainWindow,
           .types = kFloats,
           .shape = avg_pool_grad_shape,
           .grad = avg_pool_grad_grad,
           .kernels = {TUTTI_CPU(cpu::avg_pool_grad_kernel())}});
}

}  // namespace

void register_pool_ops(OpTable& ops) {
  register_max_pools(ops);
  register_argmax_pools(ops);
  register_avg_pools(ops);
}

}  // namespace tutti

// Rows of convolutions.

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/conv_kernels.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/internal/window_shapes.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using internal::known_shape_of;

// --- Shapes. ---

Status check_channels(std::int64_t inputs, const PartialShape& filter, bool depthwise) {
  const std::int64_t depth = filter.dim(2);
  if (inputs == kUnknownDim || depth == kUnknownDim) return {};
  if (depthwise ? inputs != depth : depth == 0 || inputs % depth != 0) {
    return invalid_argument(depthwise ? "input and filter must have the same depth: "
                                      : "input depth must be evenly divisible by filter depth: ",
                            inputs, " vs ", depth);
  }
  return {};
}

ShapeFn conv_shape(bool depthwise) {
  return [depthwise](ShapeContext& c) -> Status {
    TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank(0, 4));
    TUTTI_ASSIGN_OR_RETURN(PartialShape filter, c.with_rank(1, 4));
    TUTTI_ASSIGN_OR_RETURN(cpu::WindowAttrs attrs, cpu::read_window_attrs(c.node().attrs()));
    TUTTI_RETURN_IF_ERROR(check_channels(input.dim(attrs.channel_dim()), filter, depthwise));
    std::int64_t channels = filter.dim(3);
    if (depthwise && (channels == kUnknownDim || filter.dim(2) == kUnknownDim ||
                      __builtin_mul_overflow(channels, filter.dim(2), &channels))) {
      channels = kUnknownDim;
    }
    TUTTI_ASSIGN_OR_RETURN(PartialShape output,
                           internal::windowed_shape(attrs, input, {filter.dim(0), filter.dim(1)}, channels));
    c.set_output(0, std::move(output));
    return {};
  };
}

// input_sizes names all four dimensions, or rows and columns only.
Status backprop_input_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  TUTTI_ASSIGN_OR_RETURN(PartialShape filter, c.with_rank(1, 4));
  TUTTI_ASSIGN_OR_RETURN(PartialShape grad, c.with_rank(2, 4));
  TUTTI_ASSIGN_OR_RETURN(cpu::WindowAttrs attrs, cpu::read_window_attrs(c.node().attrs()));
  PartialShape sizes = c.input_as_shape(0);
  if (sizes.rank() == 2) {
    PartialShape full = PartialShape::unknown_of_rank(4);
    full.set_dim(0, grad.dim(0));
    for (int axis = 0; axis < 2; ++axis) full.set_dim(attrs.spatial_dim(axis), sizes.dim(axis));
    full.set_dim(attrs.channel_dim(), filter.dim(2));
    sizes = std::move(full);
  }
  Result<PartialShape> output = sizes.merge(PartialShape::unknown_of_rank(4));
  if (!output.ok()) return invalid_argument("input_sizes must have 4 or 2 elements, got ", sizes.rank());
  c.set_output(0, *std::move(output));
  return {};
}

Status backprop_filter_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 4).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 1).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(2, 4).status());
  TUTTI_RETURN_IF_ERROR(cpu::read_window_attrs(c.node().attrs()).status());
  const PartialShape sizes = c.input_as_shape(1);
  Result<PartialShape> output = sizes.merge(PartialShape::unknown_of_rank(4));
  if (!output.ok()) return invalid_argument("filter_sizes must have 4 elements, got ", sizes.rank());
  c.set_output(0, *std::move(output));
  return {};
}

// --- Gradients: a convolution is linear in each of its two factors. ---

AttrMap window_attrs(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"}) {
    if (const AttrValue* value = g.node().find_attr(name)) attrs[name] = *value;
  }
  return attrs;
}

struct Names {
  std::string forward;
  std::string input() const { return forward + "BackpropInput"; }
  std::string filter() const { return forward + "BackpropFilter"; }
};

GradFn forward_grad(const Names& op) {
  return [op](GradContext& g) {
    Output x = g.input(0), filter = g.input(1);
    if (g.needs(0)) g.set(0, op1(op.input(), {known_shape_of(x), filter, g.grad()}, window_attrs(g)));
    if (g.needs(1)) g.set(1, op1(op.filter(), {x, known_shape_of(filter), g.grad()}, window_attrs(g)));
  };
}

// Of (input_sizes, filter, out_backprop).
GradFn backprop_input_grad(const Names& op) {
  return [op](GradContext& g) {
    Output filter = g.input(1);
    if (g.needs(1)) g.set(1, op1(op.filter(), {g.grad(), known_shape_of(filter), g.input(2)}, window_attrs(g)));
    if (g.needs(2)) g.set(2, op1(op.forward, {g.grad(), filter}, window_attrs(g)));
  };
}

// Of (input, filter_sizes, out_backprop).
GradFn backprop_filter_grad(const Names& op) {
  return [op](GradContext& g) {
    Output x = g.input(0);
    if (g.needs(0)) g.set(0, op1(op.input(), {known_shape_of(x), g.grad(), g.input(2)}, window_attrs(g)));
    if (g.needs(2)) g.set(2, op1(op.forward, {x, g.grad()}, window_attrs(g)));
  };
}

// --- Rows. ---

void add_family(OpTable& ops, const Names& op, const std::string& attrs, bool depthwise, DTypeSet types) {
  ops.add({.name = op.forward,
           .signature = "input: T, filter: T -> output: T",
           .attrs = attrs,
           .types = types,
           .shape = conv_shape(depthwise),
           .grad = forward_grad(op),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv_kernel(depthwise))}});
  ops.add({.name = op.input(),
           .signature = "input_sizes: int32, filter: T, out_backprop: T -> output: T",
           .attrs = attrs,
           .types = types,
           .shape = backprop_input_shape,
           .grad = backprop_input_grad(op),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv_backprop_input_kernel(depthwise))}});
  ops.add({.name = op.filter(),
           .signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T",
           .attrs = attrs,
           .types = kFloats,
           .shape = backprop_filter_shape,
           .grad = backprop_filter_grad(op),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv_backprop_filter_kernel(depthwise))}});
}

}  // namespace

void register_conv_ops(OpTable& ops) {
  const auto window_in = [](std::string_view formats) {
    return str_cat("T: type; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; ",
                   "explicit_paddings: list(int) = []; dilations: list(int) = [1, 1, 1, 1]; ", "data_format: ", formats,
                   " = 'NHWC'");
  };
  const std::string window = window_in("{'NHWC', 'NCHW'}");
  add_family(ops, {"Conv2D"}, window + "; use_cudnn_on_gpu: bool = true", false, kFloats | DTypeSet{DType::kInt32});
  ops.add({.name = "_FusedConv2D",
           .signature = "input: T, filter: T, bias: T -> output: T",
           .attrs = window_in("{'NHWC'}"),
           .types = DTypeSet{DType::kFloat},
           .shape = conv_shape(false),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::biased_conv_kernel())}});
  add_family(ops, {"DepthwiseConv2dNative"}, window, true, kFloats);
  internal::add_volume_ops(ops);
}

}  // namespace tutti

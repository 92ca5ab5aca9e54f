// Rows of convolutions and pools of volumes.

#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/conv3d.h"
#include "tutti/kernels/cpu/pool3d.h"
#include "tutti/kernels/cpu/volume_window.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"

namespace tutti::internal {
namespace {

// --- Shapes. ---

Status conv3d_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape input, c.with_rank(0, 5));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape filter, c.with_rank(1, 5));
  TUTTI_ASSIGN_OR_RETURN(const cpu::VolumeAttrs attrs, cpu::read_volume_attrs(c.node().attrs()));
  const std::int64_t channels = input.dim(attrs.channel_dim()), depth = filter.dim(3);
  if (channels != kUnknownDim && depth != kUnknownDim && (depth == 0 || channels % depth != 0)) {
    return invalid_argument("input depth must be evenly divisible by filter depth: ", channels, " vs ", depth);
  }
  TUTTI_ASSIGN_OR_RETURN(
      PartialShape output,
      cpu::windowed_volume(attrs, input, {filter.dim(0), filter.dim(1), filter.dim(2)}, filter.dim(4)));
  c.set_output(0, std::move(output));
  return {};
}

// The shape that input `i` gives by value, of five dimensions.
ShapeFn five_sizes(int i) {
  return [i](ShapeContext& c) -> Status {
    TUTTI_RETURN_IF_ERROR(c.with_rank(i, 1).status());
    TUTTI_RETURN_IF_ERROR(cpu::read_volume_attrs(c.node().attrs()).status());
    TUTTI_ASSIGN_OR_RETURN(PartialShape output, c.input_as_shape(i).merge(PartialShape::unknown_of_rank(5)));
    c.set_output(0, std::move(output));
    return {};
  };
}

Status pool3d_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape input, c.with_rank(0, 5));
  TUTTI_ASSIGN_OR_RETURN(const cpu::VolumeAttrs attrs, cpu::read_volume_attrs(c.node().attrs()));
  TUTTI_ASSIGN_OR_RETURN(const cpu::Triple sizes,
                         cpu::spatial_triple(attrs, c.attr<std::vector<std::int64_t>>("ksize"), "ksize"));
  TUTTI_ASSIGN_OR_RETURN(PartialShape output,
                         cpu::windowed_volume(attrs, input, sizes, input.dim(attrs.channel_dim())));
  c.set_output(0, std::move(output));
  return {};
}

// As input `i`, a volume.
ShapeFn as_volume(int i) {
  return [i](ShapeContext& c) -> Status {
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.with_rank(i, 5));
    c.set_output(0, std::move(shape));
    return {};
  };
}

// --- Gradients. ---

AttrMap volume_attrs(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format", "dilations"}) {
    if (const AttrValue* value = g.node().find_attr(name)) attrs[name] = *value;
  }
  return attrs;
}

void conv3d_grad(GradContext& g) {
  Output x = g.input(0), filter = g.input(1);
  if (g.needs(0)) g.set(0, op1("Conv3DBackpropInputV2", {known_shape_of(x), filter, g.grad()}, volume_attrs(g)));
  if (g.needs(1)) g.set(1, op1("Conv3DBackpropFilterV2", {x, known_shape_of(filter), g.grad()}, volume_attrs(g)));
}

// Of (input_sizes, filter, out_backprop).
void conv3d_backprop_input_grad(GradContext& g) {
  Output filter = g.input(1);
  if (g.needs(1)) {
    g.set(1, op1("Conv3DBackpropFilterV2", {g.grad(), known_shape_of(filter), g.input(2)}, volume_attrs(g)));
  }
  if (g.needs(2)) g.set(2, op1("Conv3D", {g.grad(), filter}, volume_attrs(g)));
}

// Of (input, filter_sizes, out_backprop).
void conv3d_backprop_filter_grad(GradContext& g) {
  Output x = g.input(0);
  if (g.needs(0)) {
    g.set(0, op1("Conv3DBackpropInputV2", {known_shape_of(x), g.grad(), g.input(2)}, volume_attrs(g)));
  }
  if (g.needs(2)) g.set(2, op1("Conv3D", {x, g.grad()}, volume_attrs(g)));
}

void avg_pool3d_grad(GradContext& g) {
  g.set(0, op1("AvgPool3DGrad", {known_shape_of(g.input(0)), g.grad()}, volume_attrs(g)));
}
void avg_pool3d_grad_grad(GradContext& g) { g.set(1, op1("AvgPool3D", {g.grad()}, volume_attrs(g))); }
void max_pool3d_grad(GradContext& g) {
  g.set(0, op1("MaxPool3DGrad", {g.input(0), g.output(0), g.grad()}, volume_attrs(g)));
}

// Linear in the third input; the first two only say where the maxima are.
GradFn max_pool3d_back_by(const std::string& op) {
  return [op](GradContext& g) {
    g.set(0, zeros_like(g.input(0)));
    g.set(1, zeros_like(g.input(1)));
    g.set(2, op1(op, {g.input(0), g.input(1), g.grad()}, volume_attrs(g)));
  };
}

void add_conv3d(OpTable& ops) {
  const std::string window =
      "T: type; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
      "dilations: list(int) = [1, 1, 1, 1, 1]";
  ops.add({.name = "Conv3D",
           .signature = "input: T, filter: T -> output: T",
           .attrs = window,
           .types = kFloats,
           .shape = conv3d_shape,
           .grad = conv3d_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv3d_kernel())}});
  ops.add({.name = "Conv3DBackpropInputV2",
           .signature = "input_sizes: Tshape, filter: T, out_backprop: T -> output: T",
           .attrs = window + "; Tshape: {int32, int64} = int32",
           .types = kFloats,
           .shape = five_sizes(0),
           .grad = conv3d_backprop_input_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv3d_backprop_input_kernel())}});
  ops.add({.name = "Conv3DBackpropFilterV2",
           .signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T",
           .attrs = window,
           .types = kFloats,
           .shape = five_sizes(1),
           .grad = conv3d_backprop_filter_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::conv3d_backprop_filter_kernel())}});
}

void add_pool3d(OpTable& ops) {
  const std::string window =
      "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
      "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; ";
  const DTypeSet narrow{DType::kHalf, DType::kBfloat16, DType::kFloat};
  ops.add({.name = "AvgPool3D",
           .signature = "input: T -> output: T",
           .attrs = window + "T: type",
           .types = kFloats,
           .shape = pool3d_shape,
           .grad = avg_pool3d_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::avg_pool3d_kernel())}});
  ops.add({.name = "AvgPool3DGrad",
           .signature = "orig_input_shape: int32, grad: T -> output: T",
           .attrs = window + "T: type",
           .types = kFloats,
           .shape = five_sizes(0),
           .grad = avg_pool3d_grad_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::avg_pool3d_grad_kernel())}});
  ops.add({.name = "MaxPool3D",
           .signature = "input: T -> output: T",
           .attrs = window + "T: type",
           .types = narrow,
           .shape = pool3d_shape,
           .grad = max_pool3d_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::max_pool3d_kernel())}});
  ops.add({.name = "MaxPool3DGrad",
           .signature = "orig_input: TInput, orig_output: TInput, grad: T -> output: T",
           .attrs = window + "T: {half, bfloat16, float} = float; TInput: {half, bfloat16, float} = float",
           .shape = as_volume(0),
           .grad = max_pool3d_back_by("MaxPool3DGradGrad"),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::max_pool3d_grad_kernel())}});
  ops.add({.name = "MaxPool3DGradGrad",
           .signature = "orig_input: T, orig_output: T, grad: T -> output: T",
           .attrs = window + "T: type",
           .types = kReals,
           .shape = as_volume(1),
           .grad = max_pool3d_back_by("MaxPool3DGrad"),
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::max_pool3d_grad_grad_kernel(), narrow)}});
}

}  // namespace

void add_volume_ops(OpTable& ops) {
  add_conv3d(ops);
  add_pool3d(ops);
}

}  // namespace tutti::internal

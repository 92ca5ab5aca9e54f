// Rows of ops on windows of images that are no convolutions: ExtractImagePatches, Dilation2D.

#include <string>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/dilation.h"
#include "tutti/kernels/cpu/patch_window.h"
#include "tutti/kernels/cpu/patches.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/internal/window_shapes.h"

namespace tutti::internal {
namespace {

Status extract_image_patches_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape images, c.with_rank(0, 4));
  cpu::WindowAttrs attrs;
  TUTTI_ASSIGN_OR_RETURN(const auto sizes, cpu::read_patch_attrs(c.node().attrs(), &attrs));
  // Sizes and rates are under 2^31.
  std::int64_t channels = images.dim(3);
  if (channels != kUnknownDim && __builtin_mul_overflow(channels, sizes[0] * sizes[1], &channels)) {
    return invalid_argument("patches of ", sizes[0], "x", sizes[1], "x", images.dim(3), " elements are too large");
  }
  TUTTI_ASSIGN_OR_RETURN(PartialShape patches, windowed_shape(attrs, images, sizes, channels));
  c.set_output(0, std::move(patches));
  return {};
}

AttrMap patch_attrs(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksizes", "strides", "rates", "padding"}) attrs[name] = *g.node().find_attr(name);
  return attrs;
}

void extract_image_patches_grad(GradContext& g) {
  g.set(0, op1("_ExtractImagePatchesGrad", {known_shape_of(g.input(0)), g.grad()}, patch_attrs(g)));
}

void patches_back_grad(GradContext& g) { g.set(1, op1("ExtractImagePatches", {g.grad()}, patch_attrs(g))); }

Status dilation_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape images, c.with_rank(0, 4));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape filter, c.with_rank(1, 3));
  cpu::WindowAttrs attrs;
  TUTTI_RETURN_IF_ERROR(cpu::read_patch_attrs(c.node().attrs(), &attrs).status());
  TUTTI_ASSIGN_OR_RETURN(const PartialShape depth, PartialShape{images.dim(3)}.merge(PartialShape{filter.dim(2)}));
  TUTTI_ASSIGN_OR_RETURN(PartialShape output,
                         windowed_shape(attrs, images, {filter.dim(0), filter.dim(1)}, depth.dim(0)));
  c.set_output(0, std::move(output));
  return {};
}

void dilation_grad(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "rates", "padding"}) attrs[name] = *g.node().find_attr(name);
  const std::vector<Output> inputs{g.input(0), g.input(1), g.grad()};
  if (g.needs(0)) g.set(0, op1("Dilation2DBackpropInput", inputs, attrs));
  if (g.needs(1)) g.set(1, op1("Dilation2DBackpropFilter", inputs, attrs));
}

Status as_second_input(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return {};
}

void add_dilation(OpTable& ops) {
  const std::string attrs = "T: type; strides: list(int) >= 4; rates: list(int) >= 4; padding: {'SAME', 'VALID'}";
  ops.add({.name = "Dilation2D",
           .signature = "input: T, filter: T -> output: T",
           .attrs = attrs,
           .types = kReals,
           .shape = dilation_shape,
           .grad = dilation_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::dilation_kernel())}});
  ops.add({.name = "Dilation2DBackpropInput",
           .signature = "input: T, filter: T, out_backprop: T -> in_backprop: T",
           .attrs = attrs,
           .types = kReals,
           .shape = shape::unchanged,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::dilation_backprop_input_kernel())}});
  ops.add({.name = "Dilation2DBackpropFilter",
           .signature = "input: T, filter: T, out_backprop: T -> filter_backprop: T",
           .attrs = attrs,
           .types = kReals,
           .shape = as_second_input,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::dilation_backprop_filter_kernel())}});
}

}  // namespace

void add_patch_ops(OpTable& ops) {
  add_dilation(ops);
  const std::string attrs =
      "ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; T: type; padding: {'SAME', 'VALID'}";
  ops.add({.name = "ExtractImagePatches",
           .signature = "images: T -> patches: T",
           .attrs = attrs,
           .types = kPlain,
           .shape = extract_image_patches_shape,
           .grad = extract_image_patches_grad,
           .kernels = {TUTTI_CPU(cpu::extract_image_patches_kernel())}});
  // TensorFlow's gradient multiplies by a sparse matrix as large as the image times the patches, and wants all shapes.
  ops.add({.name = "_ExtractImagePatchesGrad",
           .signature = "input_sizes: int32, grad: T -> output: T",
           .attrs = attrs,
           .types = kNumbers,
           .shape = shape::from_shape_input,
           .grad = patches_back_grad,
           .kernels = {TUTTI_CPU(cpu::extract_image_patches_grad_kernel())}});
}

}  // namespace tutti::internal

// Images: resizing, cropping, colours, boxes.
#include "tutti/ops/image_ops.h"

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/bounding_boxes.h"
#include "tutti/kernels/cpu/crop_and_resize.h"
#include "tutti/kernels/cpu/image_color.h"
#include "tutti/kernels/cpu/image_random.h"
#include "tutti/kernels/cpu/resize.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

// --- Shapes. ---

// Height and width from the value of input i, a vector of 2; open where it is not known, or makes no sense.
Result<PartialShape> sides_of(ShapeContext& c, int i) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape vector, c.with_rank(i, 1));
  if (vector.dim(0) != kUnknownDim && vector.dim(0) != 2) {
    return invalid_argument("size must have 2 elements, got shape ", vector);
  }
  PartialShape sides = PartialShape::unknown_of_rank(2);
  if (const std::optional<Tensor> value = c.constant(i)) {
    for (int k = 0; k < 2; ++k) {
      const std::int64_t side = value->dtype() == DType::kInt64 ? value->data<std::int64_t>()[k]
                                                                : std::int64_t{value->data<std::int32_t>()[k]};
      if (side >= 0) sides.set_dim(k, side);
    }
  }
  return sides;
}

// Images of input 0, with the sides that input 1 gives.
Status resized_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape images, c.with_rank(0, 4));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape sides, sides_of(c, 1));
  c.set_output(0, {images.dim(0), sides.dim(0), sides.dim(1), images.dim(3)});
  return {};
}

// Images of the shape of input 1.
Status as_original(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape original, c.with_rank(1, 4));
  c.set_output(0, std::move(original));
  return {};
}

// [boxes, crop height, crop width, channels]
Status crops_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape image, c.with_rank(0, 4));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape boxes, c.with_rank(1, 2));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape indices, c.with_rank(2, 1));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape sides, sides_of(c, 3));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape count, indices.merge({boxes.dim(0)}));
  c.set_output(0, {count.dim(0), sides.dim(0), sides.dim(1), image.dim(3)});
  return {};
}

Status crop_grad_image_shape(ShapeContext& c) {
  PartialShape image = c.input_as_shape(3);
  TUTTI_ASSIGN_OR_RETURN(image, image.merge(PartialShape::unknown_of_rank(4)));
  c.set_output(0, std::move(image));
  return {};
}

Status crop_grad_boxes_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape boxes, c.with_rank(2, 2));
  c.set_output(0, std::move(boxes));
  return {};
}

Status color_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape images, c.with_rank_at_least(0, 1));
  if (images.has_rank()) {
    const std::int64_t channels = images.dim(images.rank() - 1);
    if (channels != kUnknownDim && channels != 3) return invalid_argument("images must have 3 channels, got ", images);
    images.set_dim(images.rank() - 1, 3);
  }
  c.set_output(0, std::move(images));
  return {};
}

Status adjusted_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape images, c.with_rank_at_least(0, 3));
  c.set_output(0, std::move(images));
  return {};
}

Status drawn_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape images, c.with_rank(0, 4));
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 3).status());
  if (c.num_inputs() > 2) TUTTI_RETURN_IF_ERROR(c.with_rank(2, 2).status());
  c.set_output(0, std::move(images));
  return {};
}

Status suppression_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 2).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 1).status());
  for (int i = 2; i < c.num_inputs(); ++i) TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
  const AttrValue* pad = c.node().find_attr("pad_to_max_output_size");
  const auto most = internal::constant_ints(c, 2);
  const bool known = pad != nullptr && *pad == AttrValue(true) && most && most->size() == 1 && most->front() >= 0;
  const PartialShape selected{known ? most->front() : kUnknownDim};
  c.set_output(0, selected);
  if (c.num_outputs() == 3) c.set_output(1, selected);
  if (c.num_outputs() > 1) c.set_output(c.num_outputs() - 1, PartialShape::scalar());
  return {};
}

Status random_crop_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape image, c.with_rank(0, 3));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape sides, sides_of(c, 1));
  c.set_output(0, {sides.dim(0), sides.dim(1), image.dim(2)});
  return {};
}

Status sampled_box_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 3).status());
  c.set_output(0, {3});
  c.set_output(1, {3});
  c.set_output(2, {1, 1, 4});
  return {};
}

// --- Gradients. ---

AttrMap kept_attrs(GradContext& g, std::initializer_list<const char*> names) {
  AttrMap attrs;
  for (const char* name : names) attrs[name] = *g.node().find_attr(name);
  return attrs;
}

bool is_one_of(DType dtype, DTypeSet types) { return types.contains(dtype); }

constexpr DTypeSet kWideFloats{DType::kFloat, DType::kDouble};

// By an op that takes the gradient and the images.
GradFn resize_grad(const std::string& op, DTypeSet types) {
  return [op, types](GradContext& g) {
    if (!is_one_of(g.input(0).dtype(), types)) return;
    g.set(0, op1(op, {g.grad(), g.input(0)}, kept_attrs(g, {"align_corners", "half_pixel_centers"})));
  };
}

void resize_nearest_grad(GradContext& g) {
  Output sides = slice(internal::known_shape_of(g.input(0)), {1}, {2});
  if (sides.dtype() != DType::kInt32) sides = op1("Cast", {sides}, {{"DstT", DType::kInt32}});
  g.set(0, op1("ResizeNearestNeighborGrad", {g.grad(), sides}, kept_attrs(g, {"align_corners", "half_pixel_centers"})));
}

void scale_and_translate_grad(GradContext& g) {
  if (g.input(0).dtype() != DType::kFloat) return;
  g.set(0, op1("ScaleAndTranslateGrad", {g.grad(), g.input(0), g.input(2), g.input(3)},
               kept_attrs(g, {"kernel_type", "antialias"})));
}

void crop_and_resize_grad(GradContext& g) {
  const DType type = g.input(0).dtype();
  if (is_one_of(type, DTypeSet{DType::kHalf, DType::kFloat, DType::kDouble})) {
    Output shape = internal::known_shape_of(g.input(0));
    if (shape.dtype() != DType::kInt32) shape = op1("Cast", {shape}, {{"DstT", DType::kInt32}});
    AttrMap attrs = kept_attrs(g, {"method"});
    attrs["T"] = type;
    g.set(0, op1("CropAndResizeGradImage", {g.grad(), g.input(1), g.input(2), shape}, std::move(attrs)));
  }
  // Of nearest sampling too, as in TensorFlow, the way a box moves is that of bilinear sampling.
  g.set(1, op1("CropAndResizeGradBoxes", {g.grad(), g.input(0), g.input(1), g.input(2)}));
}

void hsv_grad(GradContext& g) { g.set(0, op1("_RGBToHSVGrad", {g.grad(), g.input(0)})); }

// --- Rows. ---

constexpr const char* kPixels = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; ";
constexpr const char* kModes = "align_corners: bool = false; half_pixel_centers: bool = false";

void register_resizing(OpTable& ops) {
  const std::string attrs = std::string(kPixels) + kModes;
  const std::string to_float = "images: T, size: int32 -> resized_images: float";
  ops.add({.name = "ResizeBilinear",
           .signature = to_float,
           .attrs = attrs,
           .shape = resized_shape,
           .grad = resize_grad("ResizeBilinearGrad", kFloats),
           .kernels = {TUTTI_CPU(cpu::resize_bilinear_kernel())}});
  ops.add({.name = "ResizeBilinearGrad",
           .signature = "grads: float, original_image: T -> output: T",
           .attrs = std::string("T: {float, bfloat16, half, double}; ") + kModes,
           .shape = as_original,
           .kernels = {TUTTI_CPU(cpu::resize_bilinear_grad_kernel())}});
  ops.add({.name = "ResizeBicubic",
           .signature = to_float,
           .attrs = attrs,
           .shape = resized_shape,
           .grad = resize_grad("ResizeBicubicGrad", kWideFloats),
           .kernels = {TUTTI_CPU(cpu::resize_bicubic_kernel())}});
  ops.add({.name = "ResizeBicubicGrad",
           .signature = "grads: float, original_image: T -> output: T",
           .attrs = std::string("T: {float, double}; ") + kModes,
           .shape = as_original,
           .kernels = {TUTTI_CPU(cpu::resize_bicubic_grad_kernel())}});
  ops.add({.name = "ResizeArea",
           .signature = to_float,
           .attrs = std::string(kPixels) + "align_corners: bool = false",
           .shape = resized_shape,
           .kernels = {TUTTI_CPU(cpu::resize_area_kernel())}});
  ops.add({.name = "ResizeNearestNeighbor",
           .signature = "images: T, size: int32 -> resized_images: T",
           .attrs = attrs,
           .shape = resized_shape,
           .grad = resize_nearest_grad,
           .kernels = {TUTTI_CPU(cpu::resize_nearest_kernel())}});
  ops.add({.name = "ResizeNearestNeighborGrad",
           .signature = "grads: T, size: int32 -> output: T",
           .attrs = std::string("T: {uint8, int8, int32, half, float, double, bfloat16}; ") + kModes,
           .shape = resized_shape,
           .kernels = {TUTTI_CPU(cpu::resize_nearest_grad_kernel())}});
  const char* filters = "kernel_type: string = 'lanczos3'; antialias: bool = true";
  ops.add({.name = "ScaleAndTranslate",
           .signature = "images: T, size: int32, scale: float, translation: float -> resized_images: float",
           .attrs = std::string(kPixels) + filters,
           .shape = resized_shape,
           .grad = scale_and_translate_grad,
           .kernels = {TUTTI_CPU(cpu::scale_and_translate_kernel())}});
  ops.add({.name = "ScaleAndTranslateGrad",
           .signature = "grads: T, original_image: T, scale: float, translation: float -> output: T",
           .attrs = std::string("T: {float}; ") + filters,
           .shape = as_original,
           .kernels = {TUTTI_CPU(cpu::scale_and_translate_grad_kernel())}});
}

void register_cropping(OpTable& ops) {
  const char* pixels = "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; ";
  const char* methods = "method: {'bilinear', 'nearest'} = 'bilinear'";
  ops.add({.name = "CropAndResize",
           .signature = "image: T, boxes: float, box_ind: int32, crop_size: int32 -> crops: float",
           .attrs = std::string(pixels) + methods + "; extrapolation_value: float = 0.0",
           .shape = crops_shape,
           .grad = crop_and_resize_grad,
           .kernels = {TUTTI_CPU(cpu::crop_and_resize_kernel())}});
  ops.add({.name = "CropAndResizeGradImage",
           .signature = "grads: float, boxes: float, box_ind: int32, image_size: int32 -> output: T",
           .attrs = std::string("T: {float, half, double}; ") + methods,
           .shape = crop_grad_image_shape,
           .kernels = {TUTTI_CPU(cpu::crop_and_resize_grad_image_kernel())}});
  ops.add({.name = "CropAndResizeGradBoxes",
           .signature = "grads: float, image: T, boxes: float, box_ind: int32 -> output: float",
           .attrs = std::string(pixels) + "method: {'bilinear'} = 'bilinear'",
           .shape = crop_grad_boxes_shape,
           .kernels = {TUTTI_CPU(cpu::crop_and_resize_grad_boxes_kernel())}});
  ops.add({.name = "RandomCrop",
           .signature = "image: T, size: int64 -> output: T",
           .attrs = "T: {uint8, int8, int16, int32, int64, float, double}; seed: int = 0; seed2: int = 0",
           .shape = random_crop_shape,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_crop_kernel())}});
}

void register_colors(OpTable& ops) {
  const char* floats = "T: {half, bfloat16, float, double} = float";
  ops.add({.name = "RGBToHSV",
           .signature = "images: T -> output: T",
           .attrs = floats,
           .shape = color_shape,
           .grad = hsv_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::rgb_to_hsv))}});
  ops.add({.name = "_RGBToHSVGrad",
           .signature = "grads: T, images: T -> output: T",
           .attrs = floats,
           .shape = shape::all_same,
           .kernels = {TUTTI_CPU(kernel_from(cpu::rgb_to_hsv_grad))}});
  ops.add({.name = "HSVToRGB",
           .signature = "images: T -> output: T",
           .attrs = floats,
           .shape = color_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::hsv_to_rgb))}});
  const auto adjust = [&ops](const char* name, const char* signature, KernelFn kernel) {
    ops.add({.name = name,
             .signature = signature,
             .attrs = "T: {half, float} = float",
             .shape = adjusted_shape,
             .kernels = {TUTTI_CPU(kernel_from(kernel))}});
  };
  adjust("AdjustContrastv2", "images: T, contrast_factor: float -> output: T", cpu::adjust_contrast);
  adjust("AdjustHue", "images: T, delta: float -> output: T", cpu::adjust_hue);
  adjust("AdjustSaturation", "images: T, scale: float -> output: T", cpu::adjust_saturation);
}

void register_suppression(OpTable& ops) {
  const auto add = [&ops](const char* name, const std::string& signature, const std::string& attrs, bool no_gradient) {
    ops.add({.name = name,
             .signature = signature,
             .attrs = attrs,
             .shape = suppression_shape,
             .no_gradient = no_gradient,
             .kernels = {TUTTI_CPU(cpu::non_max_suppression_kernel())}});
  };
  const std::string boxes = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold";
  const std::string types = "T: {half, float} = float; T_threshold: {half, float} = float";
  const std::string pad = "; pad_to_max_output_size: bool = false";
  add("NonMaxSuppression", "boxes: float, scores: float, max_output_size: int32 -> selected_indices: int32",
      "iou_threshold: float = 0.5", true);
  add("NonMaxSuppressionV2", boxes + " -> selected_indices: int32", types, true);
  add("NonMaxSuppressionV3", boxes + ", score_threshold: T_threshold -> selected_indices: int32", types, false);
  add("NonMaxSuppressionV4", boxes + ", score_threshold: T_threshold -> selected_indices: int32, valid_outputs: int32",
      types + pad, false);
  add("NonMaxSuppressionV5",
      "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, soft_nms_sigma: T -> "
      "selected_indices: int32, selected_scores: T, valid_outputs: int32",
      "T: {half, float} = float" + pad, false);
  ops.add({.name = "NonMaxSuppressionWithOverlaps",
           .signature = "overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float, "
                        "score_threshold: float -> selected_indices: int32",
           .shape = suppression_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::non_max_suppression_with_overlaps))}});
}

void register_boxes(OpTable& ops) {
  ops.add({.name = "DrawBoundingBoxes",
           .signature = "images: T, boxes: float -> output: T",
           .attrs = "T: {float, half} = float",
           .shape = drawn_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::draw_bounding_boxes))}});
  ops.add({.name = "DrawBoundingBoxesV2",
           .signature = "images: T, boxes: float, colors: float -> output: T",
           .attrs = "T: {float, half} = float",
           .shape = drawn_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::draw_bounding_boxes))}});
  const auto sample = [&ops](const char* name, const char* signature, const std::string& covered) {
    ops.add({.name = name,
             .signature = signature,
             .attrs = "T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; " + covered +
                      "aspect_ratio_range: list(float) = [0.75, 1.33]; area_range: list(float) = [0.05, 1.0]; "
                      "max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false",
             .shape = sampled_box_shape,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(cpu::sample_distorted_bounding_box_kernel())}});
  };
  sample("SampleDistortedBoundingBox", "image_size: T, bounding_boxes: float -> begin: T, size: T, bboxes: float",
         "min_object_covered: float = 0.1; ");
  sample("SampleDistortedBoundingBoxV2",
         "image_size: T, bounding_boxes: float, min_object_covered: float -> begin: T, size: T, bboxes: float", "");
}

}  // namespace

void register_image_ops(OpTable& ops) {
  register_resizing(ops);
  register_cropping(ops);
  register_colors(ops);
  register_suppression(ops);
  register_boxes(ops);
}

}  // namespace tutti

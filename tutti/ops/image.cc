#include "tutti/ops/image.h"

#include "tutti/ops/builders.h"

namespace tutti::image {
namespace {

Output float_scalar(Output like, float value) { return constant(like.graph(), Tensor::scalar(value)); }

Output int32_values(Output like, const Ints& values) {
  const Output given = values.in(like.graph());
  return given.dtype() == DType::kInt32 ? given : op1("Cast", {given}, {{"DstT", DType::kInt32}});
}

}  // namespace

Output resize(Output images, const Ints& size, const ResizeOptions& options, const std::string& name) {
  AttrMap attrs{{"align_corners", options.align_corners}};
  std::string op = "ResizeArea";
  if (options.method != ResizeMethod::kArea) {
    // The corners' way has no half pixels.
    attrs["half_pixel_centers"] = options.half_pixel_centers && !options.align_corners;
    op = options.method == ResizeMethod::kBilinear  ? "ResizeBilinear"
         : options.method == ResizeMethod::kBicubic ? "ResizeBicubic"
                                                    : "ResizeNearestNeighbor";
  }
  return op1(op, {images, int32_values(images, size)}, std::move(attrs), name);
}

Output crop_and_resize(Output image, Output boxes, Output box_indices, const Ints& crop_size, const std::string& method,
                       float extrapolation_value, const std::string& name) {
  return op1("CropAndResize", {image, boxes, box_indices, int32_values(image, crop_size)},
             {{"method", method}, {"extrapolation_value", extrapolation_value}}, name);
}

Output rgb_to_hsv(Output images, const std::string& name) { return op1("RGBToHSV", {images}, {}, name); }
Output hsv_to_rgb(Output images, const std::string& name) { return op1("HSVToRGB", {images}, {}, name); }

Output adjust_contrast(Output images, float contrast_factor, const std::string& name) {
  return op1("AdjustContrastv2", {images, float_scalar(images, contrast_factor)}, {}, name);
}
Output adjust_hue(Output images, float delta, const std::string& name) {
  return op1("AdjustHue", {images, float_scalar(images, delta)}, {}, name);
}
Output adjust_saturation(Output images, float saturation_factor, const std::string& name) {
  return op1("AdjustSaturation", {images, float_scalar(images, saturation_factor)}, {}, name);
}

Output non_max_suppression(Output boxes, Output scores, std::int64_t max_output_size, float iou_threshold,
                           float score_threshold, const std::string& name) {
  const Output count = constant(boxes.graph(), Tensor::scalar(static_cast<std::int32_t>(max_output_size)));
  return op1("NonMaxSuppressionV3",
             {boxes, scores, count, float_scalar(boxes, iou_threshold), float_scalar(boxes, score_threshold)}, {},
             name);
}

Output decode_jpeg(Output contents, std::int64_t channels, std::int64_t ratio, const std::string& name) {
  return op1("DecodeJpeg", {contents}, {{"channels", channels}, {"ratio", ratio}}, name);
}
Output decode_png(Output contents, std::int64_t channels, DType dtype, const std::string& name) {
  return op1("DecodePng", {contents}, {{"channels", channels}, {"dtype", dtype}}, name);
}
Output decode_bmp(Output contents, std::int64_t channels, const std::string& name) {
  return op1("DecodeBmp", {contents}, {{"channels", channels}}, name);
}
Output decode_gif(Output contents, const std::string& name) { return op1("DecodeGif", {contents}, {}, name); }
Output decode_image(Output contents, std::int64_t channels, DType dtype, bool expand_animations,
                    const std::string& name) {
  return op1("DecodeImage", {contents},
             {{"channels", channels}, {"dtype", dtype}, {"expand_animations", expand_animations}}, name);
}
Output encode_jpeg(Output image, std::int64_t quality, const std::string& name) {
  return op1("EncodeJpeg", {image}, {{"quality", quality}}, name);
}
Output encode_png(Output image, std::int64_t compression, const std::string& name) {
  return op1("EncodePng", {image}, {{"compression", compression}}, name);
}

}  // namespace tutti::image

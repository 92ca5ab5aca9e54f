// Builders of images, named as in TensorFlow's tf.image. They throw Error.
//
// Images are [batch, height, width, channels]; those of decoders and of colour functions may lack the batch.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti::image {

enum class ResizeMethod { kBilinear, kNearestNeighbor, kBicubic, kArea };

struct ResizeOptions {
  ResizeMethod method = ResizeMethod::kBilinear;
  bool align_corners = false;      // corner pixels stay where they are
  bool half_pixel_centers = true;  // as tf.image.resize; tf.compat.v1 has false. Not of kArea
};

// To [batch, size[0], size[1], channels]: float, or the images' own type for kNearestNeighbor.
Output resize(Output images, const Ints& size, const ResizeOptions& options = {}, const std::string& name = "");

// boxes [n, 4] (y1, x1, y2, x2, in shares of the image), box_indices [n]: which image each is of. To
// [n, crop_size[0], crop_size[1], channels] of float.
Output crop_and_resize(Output image, Output boxes, Output box_indices, const Ints& crop_size,
                       const std::string& method = "bilinear", float extrapolation_value = 0,
                       const std::string& name = "");

Output rgb_to_hsv(Output images, const std::string& name = "");
Output hsv_to_rgb(Output images, const std::string& name = "");
// Each channel's distance from its mean, times the factor.
Output adjust_contrast(Output images, float contrast_factor, const std::string& name = "");
Output adjust_hue(Output images, float delta, const std::string& name = "");
Output adjust_saturation(Output images, float saturation_factor, const std::string& name = "");

// Indices of the boxes that are left, best first. boxes [n, 4], scores [n].
Output non_max_suppression(Output boxes, Output scores, std::int64_t max_output_size, float iou_threshold = 0.5f,
                           float score_threshold = -3.4028235e38f, const std::string& name = "");

// --- Files. `contents` is a scalar string. ---

// channels 0: those of the file. To [height, width, channels].
Output decode_jpeg(Output contents, std::int64_t channels = 0, std::int64_t ratio = 1, const std::string& name = "");
// dtype kUint8 or kUint16.
Output decode_png(Output contents, std::int64_t channels = 0, DType dtype = DType::kUint8,
                  const std::string& name = "");
Output decode_bmp(Output contents, std::int64_t channels = 0, const std::string& name = "");
// To [frames, height, width, 3].
Output decode_gif(Output contents, const std::string& name = "");
// Whichever it is; dtype kUint8, kUint16 or kFloat. With frames for a GIF, unless `expand_animations` is false.
Output decode_image(Output contents, std::int64_t channels = 0, DType dtype = DType::kUint8,
                    bool expand_animations = true, const std::string& name = "");
Output encode_jpeg(Output image, std::int64_t quality = 95, const std::string& name = "");
Output encode_png(Output image, std::int64_t compression = -1, const std::string& name = "");

}  // namespace tutti::image

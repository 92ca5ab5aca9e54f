#include "tutti/kernels/cpu/bounding_boxes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

using Rgba = std::array<float, 4>;

// Yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia.
constexpr std::array<Rgba, 10> kDefaultColors{{{1, 1, 0, 1},
                                               {0, 0, 1, 1},
                                               {1, 0, 0, 1},
                                               {0, 1, 0, 1},
                                               {0.5, 0, 0.5, 1},
                                               {0.5, 0.5, 0, 1},
                                               {0.5, 0, 0, 1},
                                               {0, 0, 0.5, 1},
                                               {0, 1, 1, 1},
                                               {1, 0, 1, 1}}};

Result<std::vector<Rgba>> read_colors(KernelContext& ctx, std::int64_t channels) {
  std::vector<Rgba> colors(kDefaultColors.begin(), kDefaultColors.end());
  if (channels == 1) {
    for (Rgba& color : colors) color[0] = 1;  // grey images get white boxes
  }
  if (ctx.num_inputs() < 3) return colors;
  const Tensor& given = ctx.input(2);
  if (given.rank() != 2) return invalid_argument("colors must be a 2-D matrix, got ", given.shape());
  if (given.dim(1) < channels) {
    return invalid_argument("colors must have equal or more channels than the image provided: ", given.shape(), " for ",
                            channels, " channels");
  }
  if (given.dim(0) == 0) return colors;
  colors.assign(static_cast<std::size_t>(given.dim(0)), Rgba{});
  for (std::size_t i = 0; i < colors.size(); ++i) {
    const float* from = given.data<float>() + static_cast<std::int64_t>(i) * given.dim(1);
    std::copy_n(from, std::min<std::int64_t>(given.dim(1), 4), colors[i].begin());
  }
  return colors;
}

// A coordinate in pixels. What no image reaches, and what is not a number, stays outside of every image.
std::int64_t pixel_at(float share, std::int64_t size) {
  constexpr float kFar = 1e15f;
  const float at = share * static_cast<float>(size - 1);
  if (!(at > -kFar)) return -static_cast<std::int64_t>(kFar);
  return static_cast<std::int64_t>(std::min(at, kFar));
}

// One image in floats.
class Canvas {
 public:
  Canvas(float* pixels, std::int64_t height, std::int64_t width, std::int64_t channels)
      : pixels_(pixels), height_(height), width_(width), channels_(channels) {}

  void outline(const float* box, const Rgba& color) {
    const std::int64_t top = pixel_at(box[0], height_), left = pixel_at(box[1], width_);
    const std::int64_t bottom = pixel_at(box[2], height_), right = pixel_at(box[3], width_);
    if (top > bottom || left > right) return;
    if (top >= height_ || bottom < 0 || left >= width_ || right < 0) return;
    const std::int64_t first_row = std::max<std::int64_t>(top, 0), last_row = std::min(bottom, height_ - 1);
    const std::int64_t first_column = std::max<std::int64_t>(left, 0), last_column = std::min(right, width_ - 1);
    if (top >= 0) line(top, top, first_column, last_column, color);
    if (bottom < height_) line(bottom, bottom, first_column, last_column, color);
    if (left >= 0) line(first_row, last_row, left, left, color);
    if (right < width_) line(first_row, last_row, right, right, color);
  }

 private:
  void line(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right, const Rgba& color) {
    for (std::int64_t y = top; y <= bottom; ++y) {
      for (std::int64_t x = left; x <= right; ++x) {
        std::copy_n(color.begin(), channels_, pixels_ + (y * width_ + x) * channels_);
      }
    }
  }

  float* const pixels_;
  const std::int64_t height_, width_, channels_;
};

}  // namespace

Status draw_bounding_boxes(KernelContext& ctx) {
  const Tensor& images = ctx.input(0);
  const Tensor& boxes = ctx.input(1);
  if (images.rank() != 4) return invalid_argument("The rank of the images should be 4, got ", images.shape());
  if (boxes.rank() != 3) return invalid_argument("The rank of the boxes tensor should be 3, got ", boxes.shape());
  if (images.dim(0) != boxes.dim(0)) {
    return invalid_argument("The batch sizes should be the same, got ", images.shape(), " and ", boxes.shape());
  }
  const std::int64_t channels = images.dim(3);
  if (channels != 4 && channels != 1 && channels != 3) {
    return invalid_argument("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got ", images.shape());
  }
  if (boxes.dim(2) != 4)
    return invalid_argument("The size of the third dimension of the box must be 4. Received: ", boxes.shape());
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Rgba> colors, read_colors(ctx, channels));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, images.shape()));
  TUTTI_ASSIGN_OR_RETURN(const Tensor from, widened(ctx, images, DType::kFloat));
  TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, DType::kFloat));
  if (from.num_elements() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  const std::int64_t size = images.dim(1) * images.dim(2) * channels;
  for (std::int64_t b = 0; size > 0 && b < images.dim(0); ++b) {
    Canvas canvas(to.data<float>() + b * size, images.dim(1), images.dim(2), channels);
    for (std::int64_t i = 0; i < boxes.dim(1); ++i) {
      canvas.outline(boxes.data<float>() + (b * boxes.dim(1) + i) * 4,
                     colors[static_cast<std::size_t>(i) % colors.size()]);
    }
  }
  narrow_into(to, *out);
  return {};
}

}  // namespace tutti::cpu

// From the pixels of a resized image back to those of its source, as TensorFlow places them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/kernels/kernel.h"

namespace tutti::cpu::internal {

// How the centres of pixels are laid over each other.
struct ResizeMode {
  bool align_corners = false;       // the centres of corner pixels coincide
  bool half_pixel_centers = false;  // pixels are squares, with centres at .5

  // kInvalidArgument when a node asks for both.
  static Result<ResizeMode> of(const KernelInit& init);

  float scale(std::int64_t in, std::int64_t out) const {
    return align_corners && in > 1 && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                              : static_cast<float>(in) / static_cast<float>(out);
  }
  // Where in the source, by a scale, the centre of output pixel `i` lies.
  float source(std::int64_t i, float scale) const {
    return half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
  }
  // The nearest source pixel, among `size`.
  std::int64_t nearest(std::int64_t i, float scale, std::int64_t size) const {
    const float at = half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    const float whole = align_corners ? std::round(at) : std::floor(at);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(whole), 0, size - 1);
  }
};

// Images [batch, in_height, in_width, channels] to [batch, out_height, out_width, channels].
struct ResizeSizes {
  std::int64_t batch = 0, in_height = 0, in_width = 0, out_height = 0, out_width = 0, channels = 0;

  std::int64_t in_row() const { return in_width * channels; }
  std::int64_t out_row() const { return out_width * channels; }
  bool same() const { return in_height == out_height && in_width == out_width; }
};

// From images and a vector of height and width. kInvalidArgument for other ranks, empty images, sizes under 1 and what
// is too large to address.
Result<ResizeSizes> resize_sizes(const Tensor& images, const Tensor& size);
// Output 0, for the resized images.
Result<Tensor*> allocate_resized(KernelContext& ctx, const ResizeSizes& s);
// Of a gradient: `grads` has the output's size, `original` the input's.
Result<ResizeSizes> resize_grad_sizes(const Tensor& grads, const Tensor& original);
// For kernels that blend whole rows before they take pixels out of them, `rows` of each image: kResourceExhausted where
// one side is drawn out and the other squeezed so much that this would take thousands of steps per pixel, for minutes.
Status check_row_work(const ResizeSizes& s, std::int64_t rows);
// Height and width, both at least 1, from a vector. `name` is what errors call it.
Status read_image_size(const Tensor& size, std::string_view name, std::int64_t* height, std::int64_t* width);

// Two neighbours and the share of the second.
struct LinearTap {
  std::int64_t lower = 0, upper = 0;
  float share = 0;
};
std::vector<LinearTap> linear_taps(const ResizeMode& mode, std::int64_t in, std::int64_t out);

// Loops over floats, compiled once per instruction set.
struct ResizeLoops {
  // A pixel of up to four channels for each tap. Reads and writes four floats of each pixel, however many it has.
  void (*lerp_short)(const float* from, std::span<const LinearTap> taps, std::int64_t channels, float* out);
  // out[i] = a[i] + (b[i] - a[i]) * share
  void (*blend)(const float* a, const float* b, float share, std::int64_t n, float* out);
};
ResizeLoops resize_loops();

}  // namespace tutti::cpu::internal

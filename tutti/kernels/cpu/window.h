// Windows that slide over the two spatial dimensions of an image: what convolutions and pools have in common, for
// their shape rules and their kernels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/core/attr_value.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"

namespace tutti::cpu {

enum class Padding { kValid, kSame, kExplicit };

// A window along one dimension: out places, `stride` apart, the first at -pad_before; its `kernel` elements lie
// `dilation` apart.
struct WindowAxis {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t pad_before = 0;
  std::int64_t pad_after = 0;
  bool operator==(const WindowAxis&) const = default;

  // Where the window at place `o` begins; may lie before the input.
  std::int64_t start(std::int64_t o) const { return o * stride - pad_before; }
};

// The elements of an image. Wraps instead of overflowing where one dimension is 0 and the others are huge: then it is
// 0.
inline std::int64_t count_elements(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d = 1) {
  const auto wide = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  return static_cast<std::int64_t>(wide(a) * wide(b) * wide(c) * wide(d));
}

// The attributes of a node that say how its window slides. Index 0 is rows, 1 is columns.
struct WindowAttrs {
  bool channels_first = false;
  Padding padding = Padding::kValid;
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::array<std::int64_t, 2> pad_before{};  // of kExplicit
  std::array<std::int64_t, 2> pad_after{};

  int channel_dim() const { return channels_first ? 1 : 3; }
  int spatial_dim(int axis) const { return (channels_first ? 2 : 1) + axis; }
  // Dimensions of a tensor in this format. An error when there are too many elements.
  Result<Shape> image_shape(std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t channels) const;
};

// Reads data_format, padding, explicit_paddings and, where they are there, strides and dilations.
Result<WindowAttrs> read_window_attrs(const AttrMap& attrs);
// The elements of a list of four (strides, window sizes) that go with rows and columns. Errors: another length, a batch
// or channel entry other than 1 (kUnimplemented), an entry under 1.
Result<std::array<std::int64_t, 2>> spatial_pair(const WindowAttrs& attrs, std::span<const std::int64_t> list,
                                                 std::string_view what);

// TensorFlow's rule for output size and padding. REQUIRES: in >= 0.
Result<WindowAxis> window_axis(const WindowAttrs& attrs, int axis, std::int64_t in, std::int64_t kernel);

}  // namespace tutti::cpu

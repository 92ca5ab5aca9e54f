// Windows that slide over the three spatial dimensions of a volume: what Conv3D and the 3-D pools have in common, for
// their shape rules and their kernels. Dimensions 0, 1 and 2 are planes, rows and columns.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/core/attr_value.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/kernels/cpu/window.h"

namespace tutti::cpu {

using Triple = std::array<std::int64_t, 3>;

struct VolumeAttrs {
  bool channels_first = false;
  Padding padding = Padding::kValid;
  Triple stride{1, 1, 1};
  Triple dilation{1, 1, 1};

  int channel_dim() const { return channels_first ? 1 : 4; }
  int spatial_dim(int axis) const { return (channels_first ? 2 : 1) + axis; }
  // Dimensions of a tensor in this format. An error when there are too many elements.
  Result<Shape> volume_shape(std::int64_t batch, const Triple& sizes, std::int64_t channels) const;
};

// Reads data_format, padding, strides and, where they are there, dilations.
Result<VolumeAttrs> read_volume_attrs(const AttrMap& attrs);
// The elements of a list of five (strides, window sizes) that go with the spatial dimensions. Errors: another length, a
// batch or channel entry other than 1, an entry under 1.
Result<Triple> spatial_triple(const VolumeAttrs& attrs, std::span<const std::int64_t> list, std::string_view what);
// TensorFlow's rule for output size and padding. REQUIRES: in >= 0.
Result<WindowAxis> volume_axis(const VolumeAttrs& attrs, int axis, std::int64_t in, std::int64_t kernel);

// The shape that a window of `kernel` makes of `input`; sizes may be kUnknownDim. REQUIRES: `input` has rank 5.
Result<PartialShape> windowed_volume(const VolumeAttrs& attrs, const PartialShape& input, const Triple& kernel,
                                     std::int64_t channels);

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/volume_window.h"

#include <limits>
#include <string>
#include <vector>

namespace tutti::cpu {

Result<Shape> VolumeAttrs::volume_shape(std::int64_t batch, const Triple& sizes, std::int64_t channels) const {
  if (channels_first) return Shape::create(std::array{batch, channels, sizes[0], sizes[1], sizes[2]});
  return Shape::create(std::array{batch, sizes[0], sizes[1], sizes[2], channels});
}

Result<Triple> spatial_triple(const VolumeAttrs& attrs, std::span<const std::int64_t> list, std::string_view what) {
  if (list.size() != 5) {
    return invalid_argument("Sliding window ", what, " field must specify 5 dimensions, got ", list.size());
  }
  if (list[0] != 1 || list[static_cast<std::size_t>(attrs.channel_dim())] != 1) {
    return invalid_argument("Current implementation does not yet support ", what,
                            " in the batch and depth dimensions: [", str_join(list, ", "), "]");
  }
  Triple triple{};
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t value = list[static_cast<std::size_t>(attrs.spatial_dim(axis))];
    if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) {
      return invalid_argument("Spatial ", what, " should be larger than 0 and fit in int32, got ", value);
    }
    triple[static_cast<std::size_t>(axis)] = value;
  }
  return triple;
}

Result<VolumeAttrs> read_volume_attrs(const AttrMap& attrs) {
  const auto text = [&](std::string_view name) {
    const auto it = attrs.find(name);
    return it == attrs.end() || it->second.get<std::string>() == nullptr ? std::string()
                                                                         : *it->second.get<std::string>();
  };
  VolumeAttrs window{.channels_first = text("data_format") == "NCDHW",
                     .padding = text("padding") == "SAME" ? Padding::kSame : Padding::kValid};
  const auto triple = [&](std::string_view name, Triple* to) -> Status {
    const auto it = attrs.find(name);
    const auto* list = it == attrs.end() ? nullptr : it->second.get<std::vector<std::int64_t>>();
    if (list == nullptr) return {};
    TUTTI_ASSIGN_OR_RETURN(*to, spatial_triple(window, *list, name));
    return {};
  };
  TUTTI_RETURN_IF_ERROR(triple("strides", &window.stride));
  TUTTI_RETURN_IF_ERROR(triple("dilations", &window.dilation));
  return window;
}

Result<WindowAxis> volume_axis(const VolumeAttrs& attrs, int axis, std::int64_t in, std::int64_t kernel) {
  const auto a = static_cast<std::size_t>(axis);
  const WindowAttrs alone{.padding = attrs.padding, .stride = {attrs.stride[a], 1}, .dilation = {attrs.dilation[a], 1}};
  return window_axis(alone, 0, in, kernel);
}

Result<PartialShape> windowed_volume(const VolumeAttrs& attrs, const PartialShape& input, const Triple& kernel,
                                     std::int64_t channels) {
  PartialShape output = PartialShape::unknown_of_rank(5);
  output.set_dim(0, input.dim(0));
  output.set_dim(attrs.channel_dim(), channels);
  for (int axis = 0; axis < 3; ++axis) {
    const int d = attrs.spatial_dim(axis);
    std::int64_t size = kernel[static_cast<std::size_t>(axis)];
    if (input.dim(d) == kUnknownDim || (size == kUnknownDim && attrs.padding != Padding::kSame)) continue;
    if (size == kUnknownDim) size = 1;  // of no influence on the number of places
    TUTTI_ASSIGN_OR_RETURN(const WindowAxis window, volume_axis(attrs, axis, input.dim(d), size));
    output.set_dim(d, window.out);
  }
  return output;
}

}  // namespace tutti::cpu

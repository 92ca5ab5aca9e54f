#include "tutti/ops/internal/window_shapes.h"

#include <utility>

namespace tutti::internal {

Result<PartialShape> windowed_shape(const cpu::WindowAttrs& attrs, const PartialShape& input,
                                    const std::array<std::int64_t, 2>& kernel, std::int64_t channels) {
  PartialShape output = PartialShape::unknown_of_rank(4);
  output.set_dim(0, input.dim(0));
  output.set_dim(attrs.channel_dim(), channels);
  for (int axis = 0; axis < 2; ++axis) {
    const int d = attrs.spatial_dim(axis);
    std::int64_t size = kernel[static_cast<std::size_t>(axis)];
    if (input.dim(d) == kUnknownDim) continue;
    if (size == kUnknownDim) {
      if (attrs.padding != cpu::Padding::kSame) continue;
      size = 1;  // of no influence on the number of places
    }
    TUTTI_ASSIGN_OR_RETURN(cpu::WindowAxis window, cpu::window_axis(attrs, axis, input.dim(d), size));
    output.set_dim(d, window.out);
  }
  return output;
}

}  // namespace tutti::internal

// How ExtractImagePatches and Dilation2D slide a window: their attributes are called otherwise than a convolution's.
#pragma once

#include <array>
#include <cstdint>

#include "tutti/core/attr_value.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/kernels/cpu/window.h"

namespace tutti::cpu {

// A window over images of [batch, rows, columns, depth].
struct PatchWindow {
  WindowAxis rows, columns;
  std::int64_t batch = 0, depth = 0;

  // [batch, places, places, elements under the window]
  Result<Shape> patches_shape() const;
};

// Reads strides, rates and padding into `attrs`; gives ksizes where there are any, else 1 and 1.
Result<std::array<std::int64_t, 2>> read_patch_attrs(const AttrMap& map, WindowAttrs* attrs);
Result<PatchWindow> patch_window(const WindowAttrs& attrs, const std::array<std::int64_t, 2>& sizes,
                                 const Shape& images);

}  // namespace tutti::cpu

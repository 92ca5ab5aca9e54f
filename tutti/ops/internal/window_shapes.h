// Shapes of what windows make of an image, as far as they are known.
#pragma once

#include <array>
#include <cstdint>

#include "tutti/core/shape.h"
#include "tutti/kernels/cpu/window.h"

namespace tutti::internal {

// REQUIRES: `input` has rank 4. Sizes of the window may be kUnknownDim.
Result<PartialShape> windowed_shape(const cpu::WindowAttrs& attrs, const PartialShape& input,
                                    const std::array<std::int64_t, 2>& kernel, std::int64_t channels);

}  // namespace tutti::internal

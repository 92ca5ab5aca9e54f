// Images of any element type as bytes, for summaries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/core/tensor.h"

namespace tutti {

// uint8 as it is. Floating images (half, float, double) are stretched: without negative values so that the largest
// becomes 255, else so that 0 becomes 128 and the largest magnitude reaches an end. Pixels with a value that is not
// finite become `bad_color`. REQUIRES: such a dtype; elements in whole pixels; bad_color.size() >= channels.
std::vector<std::uint8_t> image_bytes(const Tensor& image, int channels, std::span<const std::uint8_t> bad_color);

}  // namespace tutti

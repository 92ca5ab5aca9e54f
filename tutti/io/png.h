// Images as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tutti/core/status.h"

namespace tutti {

// 8 bits a channel, rows from the top, pixels row-major, channels innermost: 1 grey, 3 RGB, 4 RGBA.
// kInvalidArgument for other channels, a side outside [1, 2^31) or pixels of another size.
Result<std::string> encode_png(std::int64_t height, std::int64_t width, int channels,
                               std::span<const std::uint8_t> pixels);

}  // namespace tutti

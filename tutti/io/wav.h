// Sound as WAV files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tutti/core/status.h"

namespace tutti {

// 16-bit samples from floats in [-1, 1] (beyond it they are clipped), frame after frame, channels innermost.
// kInvalidArgument for no channels or too many, part of a frame, a sample rate outside [1, 2^32) or a file over 4 GiB.
Result<std::string> encode_wav(double sample_rate, std::int64_t channels, std::span<const float> samples);

}  // namespace tutti

// Reading sound from WAV files.
#pragma once

#include <cstdint>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

// A file of 16-bit samples. `samples` points into the bytes that were read.
struct WavFile {
  std::int64_t sample_rate = 0;
  std::int64_t channels = 0;
  std::int64_t frames = 0;
  std::string_view samples;  // frame after frame, channels innermost, low byte first

  // In [-1, 1). REQUIRES: frame < frames, channel < channels.
  float sample(std::int64_t frame, std::int64_t channel) const;
};

// kInvalidArgument for everything else.
Result<WavFile> read_wav(std::string_view bytes);

}  // namespace tutti

#include "tutti/io/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tutti {
namespace {

constexpr std::int64_t kBytesPerSample = 2;
constexpr std::int64_t kHeaderBytes = 44;

template <typename T>
void append_le(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

std::int16_t sample_of(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int16_t>(std::clamp(std::round(value * 32768.0f), -32768.0f, 32767.0f));
}

}  // namespace

Result<std::string> encode_wav(double sample_rate, std::int64_t channels, std::span<const float> samples) {
  constexpr double kMaxUint32 = std::numeric_limits<std::uint32_t>::max();
  if (!(sample_rate > 0 && sample_rate <= kMaxUint32)) return invalid_argument("WAV: sample rate ", sample_rate);
  if (channels < 1 || channels > std::numeric_limits<std::uint16_t>::max() / kBytesPerSample) {
    return invalid_argument("WAV: ", channels, " channels");
  }
  const auto count = static_cast<std::int64_t>(samples.size());
  if (count % channels != 0) return invalid_argument("WAV: ", count, " samples in ", channels, " channels");
  const double bytes_per_second = std::floor(sample_rate) * static_cast<double>(kBytesPerSample * channels);
  if (count > (static_cast<std::int64_t>(kMaxUint32) - kHeaderBytes) / kBytesPerSample ||
      bytes_per_second > kMaxUint32) {
    return invalid_argument("WAV: ", count, " samples at ", sample_rate, " a second are too many for the format");
  }
  const auto data_bytes = static_cast<std::uint32_t>(count * kBytesPerSample);
  std::string out = "RIFF";
  append_le<std::uint32_t>(out, data_bytes + static_cast<std::uint32_t>(kHeaderBytes) - 8);
  out += "WAVEfmt ";
  append_le<std::uint32_t>(out, 16);  // bytes of this part
  append_le<std::uint16_t>(out, 1);   // plain samples
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(channels));
  append_le<std::uint32_t>(out, static_cast<std::uint32_t>(sample_rate));
  append_le<std::uint32_t>(out, static_cast<std::uint32_t>(bytes_per_second));
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(channels * kBytesPerSample));
  append_le<std::uint16_t>(out, 8 * kBytesPerSample);
  out += "data";
  append_le<std::uint32_t>(out, data_bytes);
  for (const float sample : samples) append_le(out, sample_of(sample));
  return out;
}

}  // namespace tutti

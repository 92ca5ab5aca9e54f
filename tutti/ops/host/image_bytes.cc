#include "tutti/ops/host/image_bytes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

// Arithmetic in T, rounded to T after each operation. The range and the scale are floats for every T. Both as in
// TensorFlow, so that pixels agree.
template <typename T>
struct Rounded {
  using Wide = std::conditional_t<std::is_same_v<T, Half>, float, T>;
  static Wide round(Wide value) { return static_cast<Wide>(static_cast<T>(value)); }
};

template <typename Wide>
bool all_finite(const Wide* pixel, int channels) {
  return std::all_of(pixel, pixel + channels, [](Wide value) { return std::isfinite(value); });
}

// Truncated; what no int32 holds becomes 0, as on TensorFlow's usual machines.
template <typename Wide>
std::uint8_t byte_of(Wide value) {
  if (!(std::abs(value) < Wide(2147483648.0))) return 0;
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
}

template <typename T>
std::vector<std::uint8_t> stretched(const Tensor& image, int channels, std::span<const std::uint8_t> bad_color) {
  using R = Rounded<T>;
  using Wide = typename R::Wide;
  std::vector<Wide> values;
  for (const T& value : image.flat<T>()) values.push_back(static_cast<Wide>(value));

  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(channels)) {
    if (!all_finite(&values[i], channels)) continue;
    const auto [least, most] = std::minmax_element(&values[i], &values[i] + channels);
    low = std::min(low, static_cast<float>(*least));
    high = std::max(high, static_cast<float>(*most));
  }
  constexpr float kDark = 1e-6f;  // images darker than this stay dark instead of showing their noise
  const bool has_negative = low < 0;
  const float extreme = has_negative ? std::max(std::abs(low), std::abs(high)) : high;
  const Wide scale = R::round(static_cast<Wide>((extreme < kDark ? 0.0f : has_negative ? 127.0f : 255.0f) / extreme));
  const Wide offset = has_negative ? Wide(128) : Wide(0);

  std::vector<std::uint8_t> bytes(values.size());
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(channels)) {
    const bool good = all_finite(&values[i], channels);
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      bytes[i + c] = good ? byte_of(R::round(R::round(values[i + c] * scale) + offset)) : bad_color[c];
    }
  }
  return bytes;
}

}  // namespace

std::vector<std::uint8_t> image_bytes(const Tensor& image, int channels, std::span<const std::uint8_t> bad_color) {
  switch (image.dtype()) {
    case DType::kHalf:
      return stretched<Half>(image, channels, bad_color);
    case DType::kFloat:
      return stretched<float>(image, channels, bad_color);
    case DType::kDouble:
      return stretched<double>(image, channels, bad_color);
    default: {
      const auto bytes = image.flat<std::uint8_t>();
      return {bytes.begin(), bytes.end()};
    }
  }
}

}  // namespace tutti

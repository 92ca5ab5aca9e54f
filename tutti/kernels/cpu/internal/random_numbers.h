// Random bits turned into numbers, as TensorFlow does it: the bits are the same.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#include "tutti/core/dtype.h"
#include "tutti/kernels/cpu/philox.h"

namespace tutti::cpu {

// --- From random bits to numbers in [0, 1): the bits are the mantissa of a number in [1, 2). ---

inline float unit_float(std::uint32_t bits) {
  const std::uint32_t pattern = (std::uint32_t{127} << 23) | (bits & 0x7fffffu);
  float value;
  std::memcpy(&value, &pattern, sizeof value);
  return value - 1.0f;
}

inline double unit_double(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t pattern = (std::uint64_t{1023} << 52) | (std::uint64_t{high & 0xfffffu} << 32) | low;
  double value;
  std::memcpy(&value, &pattern, sizeof value);
  return value - 1.0;
}

inline Half unit_half(std::uint32_t bits) {
  const auto pattern = static_cast<std::uint16_t>((15 << 10) | (bits & 0x3ff));
  return Half(static_cast<float>(Half::from_bits(pattern)) - 1.0f);
}

inline Bfloat16 unit_bfloat16(std::uint32_t bits) {
  const auto pattern = static_cast<std::uint16_t>((127 << 7) | (bits & 0x7f));
  return Bfloat16(static_cast<float>(Bfloat16::from_bits(pattern)) - 1.0f);
}

// --- Two numbers of the normal distribution from two uniform ones (Box and Muller). ---

inline constexpr float kSmallest = 1.0e-7f;  // keeps the logarithm finite

inline void normal_pair(std::uint32_t x0, std::uint32_t x1, float* out) {
  const float u = std::max(unit_float(x0), kSmallest);
  const auto angle = static_cast<float>(2.0f * std::numbers::pi * unit_float(x1));
  const float radius = std::sqrt(-2.0f * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

inline void normal_pair(std::uint32_t x0, std::uint32_t x1, std::uint32_t x2, std::uint32_t x3, double* out) {
  const double u = std::max(unit_double(x0, x1), 1.0e-7);
  const double angle = 2.0 * std::numbers::pi * unit_double(x2, x3);
  const double radius = std::sqrt(-2.0 * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

// --- Distributions: group g of an output is what one call gives. ---

template <typename T>
struct Uniform {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  Group operator()(const Philox::Block& b) const {
    if constexpr (std::is_same_v<T, double>) {
      return {unit_double(b[0], b[1]), unit_double(b[2], b[3])};
    } else if constexpr (std::is_same_v<T, float>) {
      return {unit_float(b[0]), unit_float(b[1]), unit_float(b[2]), unit_float(b[3])};
    } else if constexpr (std::is_same_v<T, Half>) {
      return {unit_half(b[0]), unit_half(b[1]), unit_half(b[2]), unit_half(b[3])};
    } else {
      return {unit_bfloat16(b[0]), unit_bfloat16(b[1]), unit_bfloat16(b[2]), unit_bfloat16(b[3])};
    }
  }
};

template <typename T>
struct Normal {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  Group operator()(const Philox::Block& b) const {
    if constexpr (std::is_same_v<T, double>) {
      Group group;
      normal_pair(b[0], b[1], b[2], b[3], group.data());
      return group;
    } else {
      std::array<float, 4> wide;
      normal_pair(b[0], b[1], wide.data());
      normal_pair(b[2], b[3], wide.data() + 2);
      return {static_cast<T>(wide[0]), static_cast<T>(wide[1]), static_cast<T>(wide[2]), static_cast<T>(wide[3])};
    }
  }
};

template <typename T>
struct UniformInt {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  using Unsigned = std::make_unsigned_t<T>;
  T low;
  Unsigned range;
  T pick(Unsigned bits) const { return static_cast<T>(static_cast<Unsigned>(low) + bits % range); }
  Group operator()(const Philox::Block& b) const {
    if constexpr (sizeof(T) == 8) {
      return {pick(b[0] | std::uint64_t{b[1]} << 32), pick(b[2] | std::uint64_t{b[3]} << 32)};
    } else {
      return {pick(b[0]), pick(b[1]), pick(b[2]), pick(b[3])};
    }
  }
};

// All bits.
template <typename T>
struct UniformBits {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  Group operator()(const Philox::Block& b) const {
    if constexpr (sizeof(T) == 8) {
      return {static_cast<T>(b[0] | std::uint64_t{b[1]} << 32), static_cast<T>(b[2] | std::uint64_t{b[3]} << 32)};
    } else {
      return {static_cast<T>(b[0]), static_cast<T>(b[1]), static_cast<T>(b[2]), static_cast<T>(b[3])};
    }
  }
};

}  // namespace tutti::cpu

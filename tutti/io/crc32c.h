// CRC-32C (Castagnoli), and the masked form in which files store it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

// Goes on from `crc`, the value of the bytes before.
std::uint32_t crc32c_extend(std::uint32_t crc, std::string_view bytes);
inline std::uint32_t crc32c(std::string_view bytes) { return crc32c_extend(0, bytes); }

// A checksum of bytes that hold their own checksums is weak; what is stored is therefore changed by this.
constexpr std::uint32_t mask_crc(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
constexpr std::uint32_t unmask_crc(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace tutti

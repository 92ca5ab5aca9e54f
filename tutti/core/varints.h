// Numbers of seven bits to a byte, as they lie in files, and between and within messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

inline void append_varint(std::uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

// Off the front of `bytes`; false when they end or the number has more than 64 bits.
inline bool take_varint(std::string_view& bytes, std::uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    *value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return shift < 63 || byte <= 1;
  }
  return false;
}

}  // namespace tutti

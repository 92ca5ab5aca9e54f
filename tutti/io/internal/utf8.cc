#include "tutti/io/internal/utf8.h"

#include <cstddef>

namespace tutti {
namespace {

// The bytes of the sequence that begins with `first`; 0 when none does.
std::size_t sequence_bytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// What the first byte leaves open: longer forms than needed, surrogates, beyond the last code point.
bool second_byte_fits(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes[0]);
    const std::size_t size = sequence_bytes(first);
    if (size == 0 || size > bytes.size()) return false;
    for (std::size_t i = 1; i < size; ++i) {
      if ((static_cast<unsigned char>(bytes[i]) & 0xc0) != 0x80) return false;
    }
    if (size > 1 && !second_byte_fits(first, static_cast<unsigned char>(bytes[1]))) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

}  // namespace tutti

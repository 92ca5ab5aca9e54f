#include "tutti/io/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace tutti {

std::uint32_t crc32c_extend(std::uint32_t crc, std::string_view bytes) {
  // ISA-L counts bytes in an int, and neither inverts its start value nor its result.
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kMaxPiece);
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data())),
                        static_cast<int>(piece.size()), state);
    bytes.remove_prefix(piece.size());
  }
  return ~state;
}

}  // namespace tutti

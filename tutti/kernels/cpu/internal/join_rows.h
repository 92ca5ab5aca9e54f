// Rows of several arrays beside each other, copied with the widest vectors: glibc's memcpy of pieces of some hundred
// bytes has half of their speed on an AMD Zen 5 (four blocks of 16x17x17x192 floats, one thread: 0.76 and 0.36 ms).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::cpu::internal {

struct RowPiece {
  const char* from;
  std::size_t bytes;  // of a row
};

// Row i of `out` becomes row i of each piece, one after the other, for i from `begin` up to `end`.
void join_rows(std::span<const RowPiece> pieces, std::int64_t begin, std::int64_t end, char* out);

}  // namespace tutti::cpu::internal

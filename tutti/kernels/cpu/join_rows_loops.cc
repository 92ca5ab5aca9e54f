// Compiled once per instruction set.
#include <cstring>

#include "tutti/kernels/cpu/internal/join_rows.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/join_rows_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void copy_piece(const char* from, std::size_t bytes, char* to) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* target = reinterpret_cast<std::uint8_t*>(to);
  std::size_t i = 0;
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(hn::LoadU(d, source + i), d, target + i);
  std::memcpy(target + i, source + i, bytes - i);
}

void join(std::span<const internal::RowPiece> pieces, std::int64_t begin, std::int64_t end, char* out) {
  std::size_t row_bytes = 0;
  for (const internal::RowPiece& piece : pieces) row_bytes += piece.bytes;
  char* to = out + static_cast<std::size_t>(begin) * row_bytes;
  for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
    for (const internal::RowPiece& piece : pieces) {
      copy_piece(piece.from + row * piece.bytes, piece.bytes, to);
      to += piece.bytes;
    }
  }
}

}  // namespace

using JoinRows = void (*)(std::span<const internal::RowPiece>, std::int64_t, std::int64_t, char*);
JoinRows find_join_rows() { return &join; }

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_join_rows);

void internal::join_rows(std::span<const RowPiece> pieces, std::int64_t begin, std::int64_t end, char* out) {
  HWY_DYNAMIC_DISPATCH(find_join_rows)()(pieces, begin, end, out);
}

}  // namespace tutti::cpu
#endif

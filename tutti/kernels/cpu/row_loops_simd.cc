// Vector loops over rows of tables, compiled once per instruction set.
#include <algorithm>

#include "tutti/kernels/cpu/internal/simd_targets.h"
#include "tutti/kernels/cpu/row_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/row_loops_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows lie anywhere in memory: asking for one this many rows before its turn hides most of the wait. Of long rows the
// first lines do; the hardware fetches the others.
constexpr std::int64_t kRowsEarly = 24;
constexpr std::int64_t kBytesEarly = 256;

template <typename T>
HWY_INLINE void fetch_early(const T* row, std::int64_t width) {
  const char* bytes = reinterpret_cast<const char*>(row);
  const std::int64_t end = std::min<std::int64_t>(width * static_cast<std::int64_t>(sizeof(T)), kBytesEarly);
  for (std::int64_t at = 0; at < end; at += 64) __builtin_prefetch(bytes + at);
}

// Columns [column, column + kVectors vectors) of the sum, held in registers.
template <int kVectors, typename T, typename Index>
HWY_INLINE void sum_strip(const T* table, const Index* rows, std::int64_t count, std::int64_t ahead, std::int64_t width,
                          std::int64_t column, T scale, T* out) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  V sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  for (std::int64_t i = 0; i < count; ++i) {
    if (column == 0 && i + kRowsEarly < ahead) fetch_early(table + rows[i + kRowsEarly] * width, width);
    const T* row = table + rows[i] * width + column;
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], hn::LoadU(d, row + v * lanes));
  }
  const V factor = hn::Set(d, scale);
  for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Mul(sums[v], factor), d, out + column + v * lanes);
}

template <typename T, typename Index>
HWY_INLINE void sum_tail(const T* table, const Index* rows, std::int64_t count, std::int64_t width, std::int64_t column,
                         T scale, T* out) {
  const hn::ScalableTag<T> d;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(width - column));
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < count; ++i) {
    sum = hn::Add(sum, hn::MaskedLoad(rest, d, table + rows[i] * width + column));
  }
  hn::BlendedStore(hn::Mul(sum, hn::Set(d, scale)), rest, d, out + column);
}

// Single weights, as linear models have them.
template <typename T, typename Index>
void sum_elements(const T* table, const Index* rows, std::int64_t count, std::int64_t ahead, T scale, T* out) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kRowsEarly < ahead) __builtin_prefetch(table + rows[i + kRowsEarly]);
    sum += table[rows[i]];
  }
  *out = sum * scale;
}

template <typename T, typename Index>
void sum_rows(const void* from, const Index* rows, std::int64_t count, std::int64_t ahead, std::int64_t width,
              double factor, void* to) {
  const T* table = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  const T scale = static_cast<T>(factor);
  if (width == 1) return sum_elements(table, rows, count, ahead, scale, out);
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  std::int64_t column = 0;
  for (; column + 8 * lanes <= width; column += 8 * lanes) {
    sum_strip<8>(table, rows, count, ahead, width, column, scale, out);
  }
  if (column + 4 * lanes <= width) {
    sum_strip<4>(table, rows, count, ahead, width, column, scale, out);
    column += 4 * lanes;
  }
  for (; column + lanes <= width; column += lanes) {
    sum_strip<1>(table, rows, count, ahead, width, column, scale, out);
  }
  if (column < width) sum_tail(table, rows, count, width, column, scale, out);
}

template <typename T>
void add_row(const void* source, std::int64_t width, double factor, void* target) {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(target);
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<T>(factor));
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, from + i), scale, hn::LoadU(d, to + i)), d, to + i);
  }
  for (; i < width; ++i) to[i] += from[i] * static_cast<T>(factor);
}

template <typename T>
RowLoops row_loops_of() {
  return {&sum_rows<T, std::int32_t>, &sum_rows<T, std::int64_t>, &add_row<T>};
}

}  // namespace

RowLoops simd_row_loops(DType dtype) {
  if (dtype == DType::kFloat) return row_loops_of<float>();
  if (dtype == DType::kDouble) return row_loops_of<double>();
  return {};
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(simd_row_loops);
RowLoops internal::find_simd_row_loops(DType dtype) { return HWY_DYNAMIC_DISPATCH(simd_row_loops)(dtype); }
}  // namespace tutti::cpu
#endif

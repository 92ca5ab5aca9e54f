// Own matrix products: small float ones, and double ones of any size. Compiled once per instruction set.
#include <algorithm>

#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/gemm_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// --- Small float products: rows of b scaled and added. ---

constexpr std::int64_t kMaxPackedB = 4096;     // 16 KB on the stack
constexpr std::int64_t kMaxSmallWork = 16384;  // multiply-adds; beyond, oneDNN is faster

struct StridedA {
  const float* data;
  std::int64_t row;   // elements from one row to the next
  std::int64_t step;  // elements from one column to the next
};

// One row of c: the sum of rows of b, weighted by a row of a.
HWY_INLINE void multiply_row(const StridedA& a, std::int64_t i, const float* b, const GemmShape& s, float* c) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* weights = a.data + i * a.row;
  std::int64_t j = 0;
  for (; j + lanes <= s.n; j += lanes) {
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < s.k; ++k) {
      sum = hn::MulAdd(hn::Set(d, weights[k * a.step]), hn::LoadU(d, b + k * s.n + j), sum);
    }
    hn::StoreU(sum, d, c + i * s.n + j);
  }
  if (j == s.n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(s.n - j));
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < s.k; ++k) {
    sum = hn::MulAdd(hn::Set(d, weights[k * a.step]), hn::MaskedLoad(rest, d, b + k * s.n + j), sum);
  }
  hn::BlendedStore(sum, rest, d, c + i * s.n + j);
}

// --- Double products: the scheme of Goto and van de Geijn. A block of b and a block of a are packed so that the
// innermost kernel reads both in order; it keeps kTileRows x 2 vectors of c in registers. ---

constexpr std::int64_t kTileRows = 6;
constexpr std::int64_t kTileColumns = 2 * HWY_LANES(double);
constexpr std::int64_t kBlockDepth = 256;    // a packed tile of b and of a stay in the first-level cache
constexpr std::int64_t kBlockRows = 96;      // a packed block of a, 192 KB, stays in the second-level cache
constexpr std::int64_t kBlockColumns = 512;  // a packed block of b, 1 MB

// Tiles of kTileColumns columns, each depth by depth; the last one filled up with zeros.
void pack_b(const GemmShape& s, const double* b, std::int64_t k0, std::int64_t depth, std::int64_t j0,
            std::int64_t columns, double* to) {
  for (std::int64_t j = 0; j < columns; j += kTileColumns) {
    const std::int64_t width = std::min(kTileColumns, columns - j);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t l = 0; l < kTileColumns; ++l) {
        const std::int64_t column = j0 + j + l;
        *to++ = l >= width ? 0 : s.transpose_b ? b[column * s.k + k0 + k] : b[(k0 + k) * s.n + column];
      }
    }
  }
}

// Tiles of kTileRows rows, each depth by depth.
void pack_a(const GemmShape& s, const double* a, std::int64_t i0, std::int64_t rows, std::int64_t k0,
            std::int64_t depth, double* to) {
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t height = std::min(kTileRows, rows - i);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t l = 0; l < kTileRows; ++l) {
        const std::int64_t row = i0 + i + l;
        *to++ = l >= height ? 0 : s.transpose_a ? a[(k0 + k) * s.m + row] : a[row * s.k + k0 + k];
      }
    }
  }
}

// c tile (kTileRows x kTileColumns, dense in `out`) = packed a tile times packed b tile. Twelve named sums: the
// compiler must keep them in registers.
void multiply_tile(const double* a, const double* b, std::int64_t depth, double* out) {
  const hn::ScalableTag<double> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  for (std::int64_t k = 0; k < depth; ++k) {
    const auto b0 = hn::LoadU(d, b);
    const auto b1 = hn::LoadU(d, b + lanes);
    const auto a0 = hn::Set(d, a[0]);
    c00 = hn::MulAdd(a0, b0, c00);
    c01 = hn::MulAdd(a0, b1, c01);
    const auto a1 = hn::Set(d, a[1]);
    c10 = hn::MulAdd(a1, b0, c10);
    c11 = hn::MulAdd(a1, b1, c11);
    const auto a2 = hn::Set(d, a[2]);
    c20 = hn::MulAdd(a2, b0, c20);
    c21 = hn::MulAdd(a2, b1, c21);
    const auto a3 = hn::Set(d, a[3]);
    c30 = hn::MulAdd(a3, b0, c30);
    c31 = hn::MulAdd(a3, b1, c31);
    const auto a4 = hn::Set(d, a[4]);
    c40 = hn::MulAdd(a4, b0, c40);
    c41 = hn::MulAdd(a4, b1, c41);
    const auto a5 = hn::Set(d, a[5]);
    c50 = hn::MulAdd(a5, b0, c50);
    c51 = hn::MulAdd(a5, b1, c51);
    a += kTileRows;
    b += kTileColumns;
  }
  hn::StoreU(c00, d, out);
  hn::StoreU(c01, d, out + lanes);
  hn::StoreU(c10, d, out + 2 * lanes);
  hn::StoreU(c11, d, out + 3 * lanes);
  hn::StoreU(c20, d, out + 4 * lanes);
  hn::StoreU(c21, d, out + 5 * lanes);
  hn::StoreU(c30, d, out + 6 * lanes);
  hn::StoreU(c31, d, out + 7 * lanes);
  hn::StoreU(c40, d, out + 8 * lanes);
  hn::StoreU(c41, d, out + 9 * lanes);
  hn::StoreU(c50, d, out + 10 * lanes);
  hn::StoreU(c51, d, out + 11 * lanes);
}

// Adds a tile to c, or writes it when it is the first along the depth.
void store_tile(const double* tile, std::int64_t rows, std::int64_t columns, bool first, double* c,
                std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double value = tile[i * kTileColumns + j];
      c[i * stride + j] = first ? value : c[i * stride + j] + value;
    }
  }
}

void multiply_block(const double* packed_a, std::int64_t rows, const double* packed_b, std::int64_t columns,
                    std::int64_t depth, bool first, double* c, std::int64_t stride) {
  HWY_ALIGN double tile[kTileRows * kTileColumns];
  for (std::int64_t j = 0; j < columns; j += kTileColumns) {
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      multiply_tile(packed_a + i * depth, packed_b + j * depth, depth, tile);
      store_tile(tile, std::min(kTileRows, rows - i), std::min(kTileColumns, columns - j), first, c + i * stride + j,
                 stride);
    }
  }
}

}  // namespace

bool run_small_gemm(const GemmShape& s, const float* a, const float* b, float* c) {
  if (s.m > kMaxSmallWork || s.k * s.n > kMaxPackedB || s.m * s.k * s.n > kMaxSmallWork) return false;
  const StridedA rows{a, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1};
  HWY_ALIGN float packed[kMaxPackedB];
  if (s.transpose_b) {
    for (std::int64_t k = 0; k < s.k; ++k) {
      for (std::int64_t j = 0; j < s.n; ++j) packed[k * s.n + j] = b[j * s.k + k];
    }
    b = packed;
  }
  for (std::int64_t i = 0; i < s.m; ++i) multiply_row(rows, i, b, s, c);
  return true;
}

std::int64_t packed_room() {
  // Tiles are filled up, so blocks may be one tile longer.
  return kBlockDepth * (kBlockColumns + kTileColumns) + kBlockDepth * (kBlockRows + kTileRows);
}

void run_blocked_gemm(const GemmShape& s, const double* a, const double* b, double* c, std::int64_t begin,
                      std::int64_t end, double* room) {
  double* packed_b = room;
  double* packed_a = room + kBlockDepth * (kBlockColumns + kTileColumns);
  for (std::int64_t j = 0; j < s.n; j += kBlockColumns) {
    const std::int64_t columns = std::min(kBlockColumns, s.n - j);
    for (std::int64_t k = 0; k < s.k; k += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, s.k - k);
      pack_b(s, b, k, depth, j, columns, packed_b);
      for (std::int64_t i = begin; i < end; i += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, end - i);
        pack_a(s, a, i, rows, k, depth, packed_a);
        multiply_block(packed_a, rows, packed_b, columns, depth, k == 0, c + i * s.n + j, s.n);
      }
    }
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(run_small_gemm);
HWY_EXPORT(packed_room);
HWY_EXPORT(run_blocked_gemm);

bool internal::small_gemm(const GemmShape& shape, const float* a, const float* b, float* c) {
  return HWY_DYNAMIC_DISPATCH(run_small_gemm)(shape, a, b, c);
}

std::int64_t internal::packed_doubles() { return HWY_DYNAMIC_DISPATCH(packed_room)(); }

void internal::blocked_gemm(const GemmShape& shape, const double* a, const double* b, double* c, std::int64_t begin,
                            std::int64_t end, double* room) {
  HWY_DYNAMIC_DISPATCH(run_blocked_gemm)(shape, a, b, c, begin, end, room);
}

}  // namespace tutti::cpu
#endif

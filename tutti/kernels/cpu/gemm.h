// Matrix products of plain arrays.
#pragma once

#include <cstdint>

#include "tutti/core/allocator.h"
#include "tutti/core/dtype.h"
#include "tutti/core/status.h"
#include "tutti/core/team.h"

namespace tutti::cpu {

// c[m,n] = op(a) op(b), all row major and dense: a is [m,k], or [k,m] when transposed; b is [k,n] or [n,k].
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool operator==(const GemmShape&) const = default;
};

// Elements from one row of a matrix, as it lies in memory, to the next.
struct GemmStrides {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  bool operator==(const GemmStrides&) const = default;
};
// Those of matrices without gaps between rows.
inline GemmStrides dense_strides(const GemmShape& s) {
  return {s.transpose_a ? s.m : s.k, s.transpose_b ? s.k : s.n, s.n};
}

// The product of one pair of matrices, for T of float, double, int32, int64, complex<double>. Integers wrap. A
// dimension of 0 gives zeros or nothing. `allocator` lends room for packed operands. The same bits for the same size
// of `team`.
template <typename T>
Status gemm(const GemmShape& shape, const T* a, const T* b, T* c, Team& team, Allocator& allocator);

// A float product of matrices that lie in larger ones. REQUIRES: no stride is under its row's length; m, n, k > 0.
Status strided_gemm(const GemmShape& shape, const GemmStrides& strides, const float* a, const float* b, float* c,
                    Team& team);

// c += op(a) op(b), of dense float matrices. REQUIRES: m, n, k > 0.
Status accumulating_gemm(const GemmShape& shape, const float* a, const float* b, float* c, Team& team);

// The product for a dtype known at run time. REQUIRES: can_multiply(dtype).
Status multiply(DType dtype, const GemmShape& shape, const void* a, const void* b, void* c, Team& team,
                Allocator& allocator);
bool can_multiply(DType dtype);

namespace internal {
// The float product on oneDNN, in the place of c's values or added to them.
enum class GemmResult { kReplace, kAdd };
Status onednn_gemm(const GemmShape& shape, const GemmStrides& strides, const float* a, const float* b, float* c,
                   Team& team, GemmResult result = GemmResult::kReplace);
// Small products, where calling oneDNN costs more than multiplying. True when it took the product.
bool small_gemm(const GemmShape& shape, const float* a, const float* b, float* c);
// Packed and blocked; `room` holds packed_doubles() doubles. Rows [begin, end) of c.
std::int64_t packed_doubles();
void blocked_gemm(const GemmShape& shape, const double* a, const double* b, double* c, std::int64_t begin,
                  std::int64_t end, double* room);
}  // namespace internal

}  // namespace tutti::cpu

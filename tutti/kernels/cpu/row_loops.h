// Rows of a table added up: the arithmetic of embedding lookups and of their gradients.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/core/team.h"
#include "tutti/core/tensor.h"

namespace tutti::cpu {

// Loops over rows of `width` elements of one dtype, floating types through float at least. Sums are taken in the
// order of the rows: the same on any number of threads.
struct RowLoops {
  // out = scale * (the sum of table[rows[0]] ... table[rows[count - 1]]); the rows up to `ahead`, of which count are
  // the first, may be fetched early.
  void (*sum_of_32)(const void* table, const std::int32_t* rows, std::int64_t count, std::int64_t ahead,
                    std::int64_t width, double scale, void* out) = nullptr;
  void (*sum_of_64)(const void* table, const std::int64_t* rows, std::int64_t count, std::int64_t ahead,
                    std::int64_t width, double scale, void* out) = nullptr;
  // to += scale * from
  void (*add)(const void* from, std::int64_t width, double scale, void* to) = nullptr;

  explicit operator bool() const { return add != nullptr; }
};

// Of floating types and integers (whose sums wrap, and whose scale is 1). Empty for other types.
RowLoops find_row_loops(DType dtype);

// Zeroes `out`, rows of `width` elements, and adds to row targets[i] row sources[i] of `from` (row i where sources is
// null) times scales[sources[i]] (1 where scales is null). Negative targets are left out. In parallel over rows of out;
// additions to one row happen in the order of i. REQUIRES: targets and sources are in range.
void scatter_rows(Team& team, const RowLoops& loops, const Tensor& from, const Tensor& targets, const Tensor* sources,
                  const double* scales, std::int64_t width, Tensor& out);

namespace internal {
RowLoops find_simd_row_loops(DType dtype);  // of float and double; else empty
}

}  // namespace tutti::cpu

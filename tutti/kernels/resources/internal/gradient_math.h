// Arithmetic on the elements of gradients, whatever their type.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"

namespace tutti {

// values[0..n) /= count, in the values' own type.
void divide_by_count(DType dtype, void* values, std::int64_t n, std::int64_t count);
// sum[0..n) += values[0..n)
void add_to_sum(DType dtype, void* sum, const void* values, std::int64_t n);
// out[0..n) = (a[0..n) + b[0..n)) / count: the bits of the two above, in one pass over memory. `out` may be `a`.
void mean_of_sum(DType dtype, const void* a, const void* b, void* out, std::int64_t n, std::int64_t count);

}  // namespace tutti

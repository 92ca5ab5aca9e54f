// Maxima of windows of integers, one element at a time.
#include <algorithm>
#include <limits>

#include "tutti/kernels/cpu/internal/pool_window.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/pooling.h"

namespace tutti::cpu::internal {
namespace {

// The first of the largest elements of a window in one channel, as an offset into the image; -1 when all is padding.
template <typename T>
std::int64_t find_max(const PoolShape& s, const T* image, std::int64_t row, std::int64_t column, std::int64_t channel) {
  const Span rows(s.rows, row), columns(s.columns, column);
  std::int64_t best = -1;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
      const std::int64_t at = (r * s.columns.in + c) * s.channels + channel;
      if (best < 0 || image[at] > image[best]) best = at;
    }
  }
  return best;
}

template <typename T>
void max_rows(const PoolShape& s, const void* in, void* out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* image = static_cast<const T*>(in) + row / s.rows.out * s.image_elements();
    T* to = static_cast<T*>(out) + row * s.columns.out * s.channels;
    for (std::int64_t i = 0; i < s.columns.out * s.channels; ++i) {
      const std::int64_t at = find_max(s, image, row % s.rows.out, i / s.channels, i % s.channels);
      to[i] = at < 0 ? std::numeric_limits<T>::lowest() : image[at];
    }
  }
}

template <typename T>
void max_grad(const PoolShape& s, const void* in, const void* grad, void* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const T* image = static_cast<const T*>(in) + n * s.image_elements();
    const T* from = static_cast<const T*>(grad) + n * s.pooled_elements();
    T* result = static_cast<T*>(to) + n * s.image_elements();
    std::fill_n(result, s.image_elements(), T{});
    for (std::int64_t i = 0; i < s.pooled_elements(); ++i) {
      const std::int64_t cell = i / s.channels;
      const std::int64_t at = find_max(s, image, cell / s.columns.out, cell % s.columns.out, i % s.channels);
      if (at >= 0) result[at] = add_wrapping(result[at], from[i]);
    }
  }
}

template <typename T>
void max_grad_grad(const PoolShape& s, const void* in, const void* grad, void* to, std::int64_t begin,
                   std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const T* image = static_cast<const T*>(in) + n * s.image_elements();
    const T* from = static_cast<const T*>(grad) + n * s.image_elements();
    T* result = static_cast<T*>(to) + n * s.pooled_elements();
    for (std::int64_t i = 0; i < s.pooled_elements(); ++i) {
      const std::int64_t cell = i / s.channels;
      const std::int64_t at = find_max(s, image, cell / s.columns.out, cell % s.columns.out, i % s.channels);
      result[i] = at < 0 ? T{} : from[at];
    }
  }
}

template <typename T>
PoolLoops loops() {
  return {.max_rows = &max_rows<T>, .max_grad = &max_grad<T>, .max_grad_grad = &max_grad_grad<T>};
}

}  // namespace

PoolLoops find_integer_pool_loops(DType dtype) {
  if (dtype == DType::kInt32) return loops<std::int32_t>();
  if (dtype == DType::kInt64) return loops<std::int64_t>();
  if (dtype == DType::kUint64) return loops<std::uint64_t>();
  return {};
}

}  // namespace tutti::cpu::internal

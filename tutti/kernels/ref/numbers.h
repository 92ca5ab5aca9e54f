// Tensors as lists of wide numbers, and walking them by coordinates.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tutti/core/tensor.h"

namespace tutti::ref {

using Integer = __int128;
using Complex = std::complex<double>;

// Which of the wide types W is.
template <typename W>
inline constexpr bool kIsReal = std::is_same_v<W, double>;
template <typename W>
inline constexpr bool kIsInteger = std::is_same_v<W, Integer>;
template <typename W>
inline constexpr bool kIsComplexW = std::is_same_v<W, Complex>;

// Calls fn with a value of the wide type for `dtype`: double, Integer or Complex. Bool counts as an integer.
template <typename Fn>
auto with_wide(DType dtype, Fn fn) {
  if (is_complex(dtype)) return fn(Complex{});
  if (is_floating(dtype)) return fn(double{});
  return fn(Integer{});
}

template <typename W>
std::vector<W> load(const Tensor& tensor);
// Integers wrap to the dtype.
template <typename W>
Tensor store(DType dtype, const Shape& shape, const std::vector<W>& values);

// All coordinates of `shape`, in order.
std::vector<std::vector<std::int64_t>> coordinates(const Shape& shape);
// The position in `shape` of coordinates `at` of a larger shape that it is broadcast to.
std::int64_t broadcast_position(const Shape& shape, const std::vector<std::int64_t>& at);

}  // namespace tutti::ref

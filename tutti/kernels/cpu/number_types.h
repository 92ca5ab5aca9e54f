// Arithmetic on elements whose C++ type is known, for kernels that do it on a few.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tutti/core/with_dtype.h"

namespace tutti::cpu {

// The type that arithmetic on T goes through: float for the 16-bit floats, an unsigned type for integers (so
// that overflow wraps instead of being undefined), else T itself.
template <typename T>
struct ArithmeticOf {
  using type = T;
};
template <>
struct ArithmeticOf<Half> {
  using type = float;
};
template <>
struct ArithmeticOf<Bfloat16> {
  using type = float;
};
template <typename T>
requires std::is_integral_v<T>
struct ArithmeticOf<T> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};

template <typename T>
T add_wrapping(T a, T b) {
  using A = typename ArithmeticOf<T>::type;
  return static_cast<T>(static_cast<A>(a) + static_cast<A>(b));
}
template <typename T>
T subtract_wrapping(T a, T b) {
  using A = typename ArithmeticOf<T>::type;
  return static_cast<T>(static_cast<A>(a) - static_cast<A>(b));
}
template <typename T>
T multiply_wrapping(T a, T b) {
  using A = typename ArithmeticOf<T>::type;
  return static_cast<T>(static_cast<A>(a) * static_cast<A>(b));
}

}  // namespace tutti::cpu

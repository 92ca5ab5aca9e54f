// From a dtype at run time to a C++ type at compile time, for kernels that do arithmetic on a few elements.
#pragma once

#include <complex>
#include <cstdint>

#include "tutti/core/dtype.h"

namespace tutti::cpu {

// Calls fn with a zero of dtype's C++ type and returns what it returns; `otherwise()` for other dtypes.
template <typename Fn, typename Otherwise>
auto with_real(DType dtype, Fn&& fn, Otherwise&& otherwise) -> decltype(otherwise()) {
  switch (dtype) {
    case DType::kFloat:
      return fn(float{});
    case DType::kDouble:
      return fn(double{});
    case DType::kInt32:
      return fn(std::int32_t{});
    case DType::kInt64:
      return fn(std::int64_t{});
    case DType::kHalf:
      return fn(Half{});
    case DType::kBfloat16:
      return fn(Bfloat16{});
    case DType::kInt8:
      return fn(std::int8_t{});
    case DType::kInt16:
      return fn(std::int16_t{});
    case DType::kUint8:
      return fn(std::uint8_t{});
    case DType::kUint16:
      return fn(std::uint16_t{});
    case DType::kUint32:
      return fn(std::uint32_t{});
    case DType::kUint64:
      return fn(std::uint64_t{});
    default:
      return otherwise();
  }
}

template <typename Fn, typename Otherwise>
auto with_number(DType dtype, Fn&& fn, Otherwise&& otherwise) -> decltype(otherwise()) {
  if (dtype == DType::kComplex64) return fn(std::complex<float>{});
  if (dtype == DType::kComplex128) return fn(std::complex<double>{});
  return with_real(dtype, fn, otherwise);
}

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

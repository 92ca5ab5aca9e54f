// From a dtype at run time to a C++ type at compile time: each calls fn with a zero of dtype's C++ type and returns
// what it returns; `otherwise()` for other dtypes.
#pragma once

#include <complex>
#include <cstdint>

#include "tutti/core/dtype.h"

namespace tutti {

// Of real numbers.
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

// Of real and complex numbers.
template <typename Fn, typename Otherwise>
auto with_number(DType dtype, Fn&& fn, Otherwise&& otherwise) -> decltype(otherwise()) {
  if (dtype == DType::kComplex64) return fn(std::complex<float>{});
  if (dtype == DType::kComplex128) return fn(std::complex<double>{});
  return with_real(dtype, fn, otherwise);
}

// Of numbers and bool.
template <typename Fn, typename Otherwise>
auto with_plain(DType dtype, Fn&& fn, Otherwise&& otherwise) -> decltype(otherwise()) {
  if (dtype == DType::kBool) return fn(bool{});
  return with_number(dtype, fn, otherwise);
}

}  // namespace tutti

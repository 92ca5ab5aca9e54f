// Elements without their meaning: copying, filling and indexing for kernels that only move data. They come in
// few sizes, so that a kernel is compiled once per size and not once per dtype.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti::cpu {

struct Bytes16 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// Calls fn with a value of the type that stands for dtype's elements: an unsigned integer of their size,
// Bytes16, or the object's own type.
template <typename Fn>
decltype(auto) with_element(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kString:
      return fn(std::string());
    case DType::kResource:
      return fn(ResourceHandle());
    case DType::kVariant:
      return fn(Variant());
    default:
      switch (dtype_size(dtype)) {
        case 2:
          return fn(std::uint16_t{});
        case 4:
          return fn(std::uint32_t{});
        case 8:
          return fn(std::uint64_t{});
        case 16:
          return fn(Bytes16{});
        default:
          return fn(std::uint8_t{});
      }
  }
}

// `count` elements; the ranges must not overlap.
void copy_elements(DType dtype, void* to, const void* from, std::int64_t count);
// Zeros, or default-made objects.
void zero_elements(DType dtype, void* to, std::int64_t count);
void fill_elements(DType dtype, void* to, const void* value, std::int64_t count);

inline char* at_element(DType dtype, void* base, std::int64_t index) {
  return static_cast<char*>(base) + index * static_cast<std::int64_t>(element_stride(dtype));
}
inline const char* at_element(DType dtype, const void* base, std::int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<std::int64_t>(element_stride(dtype));
}

// A short list of dimensions, axes or bounds, without heap memory.
struct DimList {
  std::array<std::int64_t, kMaxRank> values;
  int size = 0;

  DimList() {}  // NOLINT: the array stays uninitialised on purpose
  void push_back(std::int64_t value) { values[size++] = value; }
  std::int64_t& operator[](int i) { return values[i]; }
  std::int64_t operator[](int i) const { return values[i]; }
  std::span<const std::int64_t> span() const { return {values.data(), static_cast<std::size_t>(size)}; }
};

// The integers of a scalar or vector (int8 to int64). `what` names the input in errors, which are
// kInvalidArgument: a higher rank, another dtype, more than kMaxRank values.
Status read_dims(const Tensor& tensor, std::string_view what, DimList* list);
// The one integer of a tensor of any integer type. kInvalidArgument when there is not exactly one.
Result<std::int64_t> read_integer(const Tensor& tensor, std::string_view what);
// The same of a tensor without dimensions; one element in a vector is kInvalidArgument too.
Result<std::int64_t> read_scalar_integer(const Tensor& tensor, std::string_view what);
// A shape given by value.
Result<Shape> read_shape(const Tensor& tensor, std::string_view what);
// `axis` counted from the front. kInvalidArgument outside [-rank, rank).
Result<int> normalise_axis(std::int64_t axis, int rank);
// Elements of one row: the product of the dimensions from `first` on.
std::int64_t elements_from(const Shape& shape, int first);
// The product of the dimensions before `end`.
std::int64_t elements_before(const Shape& shape, int end);

// The row-major strides of a shape, in elements.
void strides_of(const Shape& shape, DimList* strides);

// Calls fn with the elements as they lie, a span of int16, int32 or int64. REQUIRES: such a dtype.
template <typename Fn>
decltype(auto) with_indices(const Tensor& indices, const Fn& fn) {
  switch (indices.dtype()) {
    case DType::kInt32:
      return fn(indices.flat<std::int32_t>());
    case DType::kInt64:
      return fn(indices.flat<std::int64_t>());
    default:
      return fn(indices.flat<std::int16_t>());
  }
}

// Element i of a tensor of int16, int32 or int64. REQUIRES: such a dtype.
inline std::int64_t index_at(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kInt32:
      return static_cast<const std::int32_t*>(data)[i];
    case DType::kInt64:
      return static_cast<const std::int64_t*>(data)[i];
    default:
      return static_cast<const std::int16_t*>(data)[i];
  }
}

// Writes integers as the int32 or int64 that `to` holds. REQUIRES: they fit.
void write_indices(std::span<const std::int64_t> values, Tensor& to);
// kInvalidArgument when a value does not fit in `dtype`, int32 or int64.
Status check_fits(std::span<const std::int64_t> values, DType dtype, std::string_view what);

}  // namespace tutti::cpu

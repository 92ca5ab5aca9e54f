#include "tutti/kernels/cpu/element.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tutti::cpu {

void copy_elements(DType dtype, void* to, const void* from, std::int64_t count) {
  if (count == 0) return;
  with_element(dtype, [&]<typename E>(const E&) {
    if constexpr (std::is_trivially_copyable_v<E>) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(E));
    } else {
      std::copy_n(static_cast<const E*>(from), count, static_cast<E*>(to));
    }
  });
}

void zero_elements(DType dtype, void* to, std::int64_t count) {
  if (count == 0) return;
  with_element(dtype, [&]<typename E>(const E&) {
    if constexpr (std::is_trivially_copyable_v<E>) {
      std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(E));
    } else {
      std::fill_n(static_cast<E*>(to), count, E());
    }
  });
}

void fill_elements(DType dtype, void* to, const void* value, std::int64_t count) {
  if (count == 0) return;
  with_element(dtype,
               [&]<typename E>(const E&) { std::fill_n(static_cast<E*>(to), count, *static_cast<const E*>(value)); });
}

namespace {

// Calls fn with a pointer to the tensor's elements; false when the dtype is no integer.
template <typename Fn>
bool with_integers(const Tensor& tensor, Fn&& fn) {
  switch (tensor.dtype()) {
    case DType::kInt32:
      return fn(tensor.data<std::int32_t>()), true;
    case DType::kInt64:
      return fn(tensor.data<std::int64_t>()), true;
    case DType::kInt16:
      return fn(tensor.data<std::int16_t>()), true;
    case DType::kInt8:
      return fn(tensor.data<std::int8_t>()), true;
    case DType::kUint8:
      return fn(tensor.data<std::uint8_t>()), true;
    case DType::kUint16:
      return fn(tensor.data<std::uint16_t>()), true;
    case DType::kUint32:
      return fn(tensor.data<std::uint32_t>()), true;
    default:
      return false;
  }
}

}  // namespace

Status read_dims(const Tensor& tensor, std::string_view what, DimList* list) {
  if (tensor.rank() > 1) return invalid_argument(what, " must be a vector, not of shape ", tensor.shape());
  const std::int64_t count = tensor.num_elements();
  if (count > kMaxRank) return invalid_argument(what, " has ", count, " values, more than ", kMaxRank, " dimensions");
  list->size = static_cast<int>(count);
  const bool known = with_integers(tensor, [&](const auto* data) { std::copy_n(data, count, list->values.begin()); });
  if (!known) return invalid_argument(what, " must hold integers, not ", dtype_name(tensor.dtype()));
  return {};
}

Result<std::int64_t> read_integer(const Tensor& tensor, std::string_view what) {
  if (tensor.num_elements() != 1) return invalid_argument(what, " must be a scalar, not of shape ", tensor.shape());
  std::int64_t value = 0;
  if (!with_integers(tensor, [&](const auto* data) { value = static_cast<std::int64_t>(data[0]); })) {
    return invalid_argument(what, " must be an integer, not ", dtype_name(tensor.dtype()));
  }
  return value;
}

Result<std::int64_t> read_scalar_integer(const Tensor& tensor, std::string_view what) {
  if (tensor.rank() != 0) return invalid_argument(what, " must be a scalar, not of shape ", tensor.shape());
  return read_integer(tensor, what);
}

Result<Shape> read_shape(const Tensor& tensor, std::string_view what) {
  DimList dims;
  TUTTI_RETURN_IF_ERROR(read_dims(tensor, what, &dims));
  if (tensor.rank() != 1) return invalid_argument(what, " must be a vector, not of shape ", tensor.shape());
  Result<Shape> shape = Shape::create(dims.span());
  if (!shape.ok()) return shape.status().with_context(what);
  return shape;
}

Result<int> normalise_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return invalid_argument("axis ", axis, " is not in [", -rank, ", ", rank, ")");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::int64_t elements_from(const Shape& shape, int first) {
  std::int64_t product = 1;
  for (int i = first; i < shape.rank(); ++i) product *= shape.dim(i);
  return product;
}

std::int64_t elements_before(const Shape& shape, int end) {
  std::int64_t product = 1;
  for (int i = 0; i < end; ++i) product *= shape.dim(i);
  return product;
}

void strides_of(const Shape& shape, DimList* strides) {
  strides->size = shape.rank();
  std::int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    (*strides)[d] = stride;
    stride *= shape.dim(d);
  }
}

void write_indices(std::span<const std::int64_t> values, Tensor& to) {
  if (to.dtype() == DType::kInt32) {
    std::transform(values.begin(), values.end(), to.data<std::int32_t>(),
                   [](std::int64_t v) { return static_cast<std::int32_t>(v); });
  } else {
    std::copy(values.begin(), values.end(), to.data<std::int64_t>());
  }
}

Status check_fits(std::span<const std::int64_t> values, DType dtype, std::string_view what) {
  if (dtype != DType::kInt32) return {};
  for (const std::int64_t value : values) {
    if (value > std::numeric_limits<std::int32_t>::max() || value < std::numeric_limits<std::int32_t>::min()) {
      return invalid_argument(what, " ", value, " does not fit in int32");
    }
  }
  return {};
}

}  // namespace tutti::cpu

#include "tutti/core/tensor.h"

#include <atomic>
#include <cstring>
#include <new>
#include <typeinfo>
#include <utility>

#include "tutti/core/borrowed_buffer.h"
#include "tutti/core/memory_budget.h"

namespace tutti {

namespace {

// Elements that are C++ objects: an array of them.
template <typename T>
class ObjectBuffer : public Buffer {
 public:
  ObjectBuffer(std::unique_ptr<T[]> objects, std::size_t count)
      : Buffer(objects.get(), count * sizeof(T)), objects_(std::move(objects)) {}

 private:
  const std::unique_ptr<T[]> objects_;
};

template <typename T>
BufferPtr make_object_buffer(std::size_t count) {
  std::unique_ptr<T[]> objects(new (std::nothrow) T[count]());
  if (!objects) return nullptr;
  return std::make_shared<ObjectBuffer<T>>(std::move(objects), count);
}

// REQUIRES: is_object(dtype).
BufferPtr make_object_buffer(DType dtype, std::size_t count) {
  if (dtype == DType::kString) return make_object_buffer<std::string>(count);
  if (dtype == DType::kResource) return make_object_buffer<ResourceHandle>(count);
  return make_object_buffer<Variant>(count);
}

bool same_object(const std::string& a, const std::string& b) { return a == b; }
bool same_object(const ResourceHandle& a, const ResourceHandle& b) {
  return a.device() == b.device() && a.container() == b.container() && a.name() == b.name() && a.slot() == b.slot();
}
bool same_object(const Variant& a, const Variant& b) { return a.object() == b.object(); }

template <typename T>
bool same_objects(const Tensor& a, const Tensor& b) {
  const std::span<const T> left = a.flat<T>();
  const std::span<const T> right = b.flat<T>();
  return std::equal(left.begin(), left.end(), right.begin(), [](const T& x, const T& y) { return same_object(x, y); });
}

template <typename T>
T load(const void* data, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
std::string complex_to_string(std::complex<T> value) {
  return str_cat("(", value.real(), ",", value.imag(), ")");
}

std::string element_to_string(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat:
      return str_cat(load<float>(data, i));
    case DType::kDouble:
      return str_cat(load<double>(data, i));
    case DType::kHalf:
      return str_cat(static_cast<float>(load<Half>(data, i)));
    case DType::kBfloat16:
      return str_cat(static_cast<float>(load<Bfloat16>(data, i)));
    case DType::kInt32:
    case DType::kQint32:
      return str_cat(load<std::int32_t>(data, i));
    case DType::kUint32:
      return str_cat(load<std::uint32_t>(data, i));
    case DType::kInt16:
    case DType::kQint16:
      return str_cat(load<std::int16_t>(data, i));
    case DType::kUint16:
    case DType::kQuint16:
      return str_cat(load<std::uint16_t>(data, i));
    case DType::kInt8:
    case DType::kQint8:
    case DType::kInt4:
      return str_cat(load<std::int8_t>(data, i));
    case DType::kUint8:
    case DType::kQuint8:
    case DType::kUint4:
      return str_cat(load<std::uint8_t>(data, i));
    case DType::kInt64:
      return str_cat(load<std::int64_t>(data, i));
    case DType::kUint64:
      return str_cat(load<std::uint64_t>(data, i));
    case DType::kBool:
      return load<std::uint8_t>(data, i) != 0 ? "true" : "false";
    case DType::kComplex64:
      return complex_to_string(load<std::complex<float>>(data, i));
    case DType::kComplex128:
      return complex_to_string(load<std::complex<double>>(data, i));
    case DType::kString:
      return str_cat("\"", printable(static_cast<const std::string*>(data)[i]), "\"");
    case DType::kResource:
      return str_cat("\"", printable(static_cast<const ResourceHandle*>(data)[i].name()), "\"");
    case DType::kVariant: {
      const Variant& variant = static_cast<const Variant*>(data)[i];
      return variant.has_value() ? variant.object()->debug_string() : "<empty>";
    }
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:  // no arithmetic type: the bits
      return str_cat("bits ", load<std::uint8_t>(data, i));
    case DType::kInvalid:
      break;
  }
  return "?";
}

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape) {
  *this = create(dtype, shape, heap_allocator()).value_or_throw();
  if (!is_object(dtype) && bytes() > 0) std::memset(raw(), 0, bytes());
}

Result<Tensor> Tensor::create(DType dtype, const Shape& shape, Allocator& allocator) {
  const std::size_t stride = element_stride(dtype);
  if (stride == 0) return invalid_argument("allocating ", dtype_name(dtype), " ", shape, ": not an element type");
  const auto count = static_cast<std::size_t>(shape.num_elements());
  std::size_t bytes;
  if (__builtin_mul_overflow(count, stride, &bytes)) {
    return resource_exhausted("allocating ", dtype_name(dtype), " ", shape, ": ", count, " times ", stride,
                              " bytes are more than any memory holds");
  }
  BufferPtr buffer = is_object(dtype) ? make_object_buffer(dtype, count) : allocator.allocate(bytes);
  if (!buffer) {
    return resource_exhausted("allocating ", dtype_name(dtype), " ", shape, ": ", bytes, " bytes are not available",
                              MemoryScope::shortage(bytes));
  }
  return Tensor(dtype, shape, std::move(buffer));
}

std::size_t Tensor::bytes() const { return static_cast<std::size_t>(num_elements()) * element_stride(dtype_); }

bool Tensor::unique() const {
  if (!buffer_ || buffer_.use_count() != 1) return false;
  const Buffer& buffer = *buffer_;
  if (typeid(buffer) == typeid(BorrowedBuffer)) return false;
    // use_count() is a relaxed read. The acquire puts what former holders did before they let go ahead of
    // what the caller does now. The thread sanitizer knows no fences, but sees the same order in a copy.
#if defined(__SANITIZE_THREAD__)
  const BufferPtr copy = buffer_;
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

void Tensor::throw_wrong_count(const Shape& shape, std::size_t values) {
  throw_error(invalid_argument("Tensor::of: ", values, " values for shape ", shape, ", which has ",
                               shape.num_elements(), " elements"));
}

void Tensor::throw_wrong_type(DType asked) const {
  throw_error(invalid_argument("Tensor: ", dtype_name(dtype_), " ", shape_, " read as ", dtype_name(asked)));
}

void Tensor::throw_empty() const { throw_error(invalid_argument("Tensor::scalar: shape ", shape_, " has no element")); }

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (rank() < 1 || begin < 0 || end < begin || end > dim(0)) {
    throw_error(invalid_argument("Tensor::slice: rows [", begin, ",", end, ") of shape ", shape_));
  }
  const std::int64_t row_elements = dim(0) == 0 ? 0 : num_elements() / dim(0);
  const std::size_t skipped_bytes = static_cast<std::size_t>(begin * row_elements) * element_stride(dtype_);
  Shape shape = shape_;
  shape.set_dim(0, end - begin);
  return Tensor(dtype_, std::move(shape), buffer_, offset_bytes_ + skipped_bytes);
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.num_elements() != num_elements()) {
    throw_error(invalid_argument("Tensor::reshaped: ", shape_, " as ", shape, ": ", num_elements(),
                                 " elements are not ", shape.num_elements()));
  }
  return Tensor(dtype_, shape, buffer_, offset_bytes_);
}

Result<Tensor> Tensor::clone(Allocator& allocator) const {
  if (!has_value()) return Tensor();
  TUTTI_ASSIGN_OR_RETURN(Tensor copy, create(dtype_, shape_, allocator));
  if (dtype_ == DType::kString) {
    std::copy_n(data<std::string>(), num_elements(), copy.data<std::string>());
  } else if (dtype_ == DType::kResource) {
    std::copy_n(data<ResourceHandle>(), num_elements(), copy.data<ResourceHandle>());
  } else if (dtype_ == DType::kVariant) {
    std::copy_n(data<Variant>(), num_elements(), copy.data<Variant>());
  } else if (bytes() > 0) {
    std::memcpy(copy.raw(), raw(), bytes());
  }
  return copy;
}

std::string Tensor::to_string(int max_elements) const {
  if (!has_value()) return "<no tensor>";
  std::string text = str_cat(dtype_name(dtype_), " ", shape_, " {");
  for (std::int64_t i = 0; i < num_elements(); ++i) {
    if (i > 0) text += ", ";
    if (i == max_elements) {
      text += "...";
      break;
    }
    text += element_to_string(dtype_, raw(), i);
  }
  text += '}';
  return text;
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (!a.has_value() || a.num_elements() == 0) return true;
  if (a.dtype() == DType::kString) return same_objects<std::string>(a, b);
  if (a.dtype() == DType::kResource) return same_objects<ResourceHandle>(a, b);
  if (a.dtype() == DType::kVariant) return same_objects<Variant>(a, b);
  return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

std::size_t element_stride(DType dtype) {
  if (dtype == DType::kString) return sizeof(std::string);
  if (dtype == DType::kResource) return sizeof(ResourceHandle);
  if (dtype == DType::kVariant) return sizeof(Variant);
  return dtype_size(dtype);
}

}  // namespace tutti

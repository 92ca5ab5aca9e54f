// Tensor: an element type, a shape and shared memory.
//
// Copies share the memory (a pointer and a count); slices along the first dimension do too. A tensor
// is never changed while anybody else can see it: writers check `unique()` or write what they made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/allocator.h"
#include "tutti/core/dtype.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/variant.h"

namespace tutti {

class Tensor {
 public:
  Tensor() = default;  // holds nothing; dtype() is kInvalid
  // REQUIRES: `buffer` holds the elements at `offset_bytes`.
  Tensor(DType dtype, Shape shape, BufferPtr buffer, std::size_t offset_bytes = 0)
      : buffer_(std::move(buffer)), offset_bytes_(offset_bytes), shape_(std::move(shape)), dtype_(dtype) {}
  // Heap memory, zeroed (strings empty). For tests and users; throws Error when memory is exhausted.
  Tensor(DType dtype, const Shape& shape);

  // Contents undefined (objects default-constructed). kResourceExhausted, with the shape, when memory is.
  static Result<Tensor> create(DType dtype, const Shape& shape, Allocator& allocator);

  template <typename T>
  static Tensor scalar(T value) {
    Tensor t(dtype_of<T>(), Shape{});
    t.data<T>()[0] = std::move(value);
    return t;
  }
  template <typename T>
  static Tensor vector(std::span<const T> values) {
    return of<T>(Shape{static_cast<std::int64_t>(values.size())}, values);
  }
  template <typename T>
  static Tensor vector(std::initializer_list<T> values) {
    return vector(std::span<const T>(values.begin(), values.size()));
  }
  // Throws Error (kInvalidArgument) unless there are as many values as `shape` has elements.
  template <typename T>
  static Tensor of(const Shape& shape, std::span<const T> values) {
    if (shape.num_elements() != static_cast<std::int64_t>(values.size())) throw_wrong_count(shape, values.size());
    Tensor t(dtype_of<T>(), shape);
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  template <typename T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }

  // Lets go of the memory; holds nothing afterwards.
  void reset() {
    buffer_.reset();
    dtype_ = DType::kInvalid;
  }

  bool has_value() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_.dim(i); }
  std::int64_t num_elements() const { return shape_.num_elements(); }
  // Bytes of the elements as they lie in the buffer.
  std::size_t bytes() const;

  // Throws Error (kInvalidArgument) unless T is dtype()'s C++ type.
  template <typename T>
  const T* data() const {
    if (dtype_ != dtype_of<T>()) throw_wrong_type(dtype_of<T>());
    return static_cast<const T*>(raw());
  }
  template <typename T>
  T* data() {
    return const_cast<T*>(static_cast<const Tensor*>(this)->data<T>());
  }
  template <typename T>
  std::span<const T> flat() const {
    return {data<T>(), static_cast<std::size_t>(num_elements())};
  }
  template <typename T>
  std::span<T> flat() {
    return {data<T>(), static_cast<std::size_t>(num_elements())};
  }
  // The one element, or the first. Throws Error (kInvalidArgument) for another type than T, and when there is none.
  template <typename T>
  const T& scalar() const {
    if (num_elements() < 1) throw_empty();
    return data<T>()[0];
  }
  const void* raw() const { return buffer_ ? static_cast<char*>(buffer_->data()) + offset_bytes_ : nullptr; }
  void* raw() { return const_cast<void*>(static_cast<const Tensor*>(this)->raw()); }

  // Nobody else holds the memory: it may be written in place, after all that former holders did with it.
  bool unique() const;
  const BufferPtr& buffer() const { return buffer_; }

  // Rows [begin, end) of the first dimension, sharing memory. Throws Error (kInvalidArgument) for a scalar and for rows
  // that there are not.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  // The same elements under another shape, sharing memory. Throws Error (kInvalidArgument) for another count.
  Tensor reshaped(const Shape& shape) const;
  // A copy with memory of its own.
  Result<Tensor> clone(Allocator& allocator = heap_allocator()) const;

  // "float [2,2] {1, 2, 3, ...}"
  std::string to_string(int max_elements = 8) const;

 private:
  [[noreturn]] static void throw_wrong_count(const Shape& shape, std::size_t values);
  [[noreturn]] void throw_wrong_type(DType asked) const;
  [[noreturn]] void throw_empty() const;

  BufferPtr buffer_;
  std::size_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::kInvalid;
};

// Same dtype, shape and bytes (strings by value; NaNs compare by bits).
bool bitwise_equal(const Tensor& a, const Tensor& b);

// Bytes from one element to the next in a buffer, objects included.
std::size_t element_stride(DType dtype);

}  // namespace tutti

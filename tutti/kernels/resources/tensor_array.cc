#include "tutti/kernels/resources/tensor_array.h"

#include <memory>
#include <utility>

#include "tutti/core/with_dtype.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti {

namespace {

// An index past this is a mistake, not a long array.
constexpr std::int64_t kMaxPlaces = std::int64_t{1} << 27;

Result<PartialShape> with_leading(const Shape& prepended, const PartialShape& shape) {
  if (!shape.has_rank() || prepended.rank() == 0) return shape;
  std::vector<std::int64_t> dims(prepended.dims().begin(), prepended.dims().end());
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return PartialShape::create(std::move(dims));
}

}  // namespace

TensorArray::TensorArray(TensorArrayOptions options, std::int64_t size)
    : options_(std::move(options)),
      element_shape_(options_.element_shape),
      size_(size),
      may_grow_(options_.dynamic_size) {}

Status TensorArray::check_open() const {
  if (closed_) return invalid_argument("TensorArray ", printable(options_.name), " has already been closed.");
  return {};
}

Status TensorArray::make_room(std::int64_t index) {
  if (index >= 0 && index < size_) return {};
  if (index < 0 || !may_grow_ || index >= kMaxPlaces) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Tried to write to index ", index,
                            " but array is not resizeable and size is: ", size_);
  }
  size_ = index + 1;
  return {};
}

Status TensorArray::check_shape(const Shape& shape, std::int64_t index) {
  if (!element_shape_.compatible_with(shape)) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Could not write to TensorArray index ", index,
                            " because the value shape is ", shape,
                            " which is incompatible with the TensorArray's inferred element shape: ", element_shape_);
  }
  if (options_.identical_element_shapes) element_shape_ = shape;
  return {};
}

Status TensorArray::add_to(Place& place, const Tensor& value) {
  if (place.value.shape() != value.shape()) {
    return invalid_argument("TensorArray ", printable(options_.name), ": cannot add a value of shape ", value.shape(),
                            " to one of shape ", place.value.shape());
  }
  if (!place.value.unique()) {
    TUTTI_ASSIGN_OR_RETURN(place.value, place.value.clone());
  }
  return with_number(
      value.dtype(),
      [&]<typename T>(T) -> Status {
        T* sum = place.value.data<T>();
        const T* addend = value.data<T>();
        for (std::int64_t i = 0; i < value.num_elements(); ++i) sum[i] = cpu::add_wrapping(sum[i], addend[i]);
        return {};
      },
      [&]() -> Status { return unimplemented("no sums of ", dtype_name(value.dtype())); });
}

Result<std::int64_t> TensorArray::size() const {
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  return size_;
}

void TensorArray::mark_size() {
  MutexLock lock(mu_);
  if (!options_.adds_writes) marked_size_ = size_;
}

Result<std::int64_t> TensorArray::packed_size() const {
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  return options_.adds_writes ? marked_size_.value_or(size_) : size_;
}

Status TensorArray::write(std::int64_t index, Tensor value) {
  if (value.dtype() != options_.dtype) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Could not write to TensorArray index ", index,
                            " because the value dtype is ", dtype_name(value.dtype()), " but TensorArray dtype is ",
                            dtype_name(options_.dtype), ".");
  }
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  TUTTI_RETURN_IF_ERROR(make_room(index));
  Place& place = places_[index];
  if (place.cleared) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Could not write to TensorArray index ", index,
                            " because it has already been read.");
  }
  if (place.written && !options_.adds_writes) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Could not write to TensorArray index ", index,
                            " because it has already been written to.");
  }
  TUTTI_RETURN_IF_ERROR(check_shape(value.shape(), index));
  if (place.written) return add_to(place, value);
  place.shape = value.shape();
  place.value = std::move(value);
  place.written = true;
  return {};
}

Result<Tensor> TensorArray::read(std::int64_t index) {
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  if (index < 0 || index >= size_) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Tried to read from index ", index,
                            " but array size is: ", size_);
  }
  Place& place = places_[index];
  if (place.cleared) {
    return invalid_argument("TensorArray ", printable(options_.name), ": Could not read index ", index,
                            " twice because it was cleared after a previous read (perhaps try setting "
                            "clear_after_read = false?).");
  }
  if (!place.written) {
    const auto shape = place.shape ? place.shape : element_shape_.as_shape();
    if (!shape) {
      return invalid_argument("TensorArray ", printable(options_.name), ": Could not read from TensorArray index ",
                              index,
                              ": it was not written to, and the element shape is not fully defined: ", element_shape_);
    }
    TUTTI_ASSIGN_OR_RETURN(place.value, Tensor::create(options_.dtype, *shape, heap_allocator()));
    cpu::zero_elements(options_.dtype, place.value.raw(), place.value.num_elements());
    place.shape = *shape;
    place.written = true;
  }
  if (!options_.clear_after_read) return place.value;
  place.cleared = true;
  return std::exchange(place.value, Tensor());
}

void TensorArray::close() {
  std::unordered_map<std::int64_t, Place> dropped;  // destroyed after the lock is gone
  MutexLock lock(mu_);
  dropped.swap(places_);
  closed_ = true;
}

Result<std::shared_ptr<TensorArray>> TensorArray::make_gradient(std::string name, const Shape& prepended) {
  TensorArrayOptions options = options_;
  options.name = std::move(name);
  options.dynamic_size = false;
  options.adds_writes = true;
  options.clear_after_read = true;
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  may_grow_ = false;
  TUTTI_ASSIGN_OR_RETURN(options.element_shape, with_leading(prepended, element_shape_));
  auto gradient = std::make_shared<TensorArray>(std::move(options), size_);
  MutexLock gradient_lock(gradient->mu_);
  gradient->marked_size_ = marked_size_;
  for (const auto& [index, place] : places_) {
    if (!place.shape) continue;
    TUTTI_ASSIGN_OR_RETURN(const PartialShape shape, with_leading(prepended, *place.shape));
    TUTTI_ASSIGN_OR_RETURN(gradient->places_[index].shape, Shape::create(shape.dims()));
  }
  return gradient;
}

std::string TensorArray::debug_string() const {
  MutexLock lock(mu_);
  return str_cat("tensor array of ", size_, " ", dtype_name(options_.dtype));
}

}  // namespace tutti

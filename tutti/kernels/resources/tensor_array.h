// An array of tensors that lives for a step, each place written once: what v1 loops collect their results in.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

struct TensorArrayOptions {
  std::string name;
  DType dtype = DType::kInvalid;
  PartialShape element_shape;             // what every value must agree with
  bool dynamic_size = false;              // writing past the end makes it longer
  bool clear_after_read = true;           // a value is let go by its first read
  bool identical_element_shapes = false;  // the first value's shape binds the others
  bool adds_writes = false;               // of a gradient: a second write to a place adds
};

// Errors are kInvalidArgument and name the array and the index. Thread-safe.
class TensorArray : public Resource {
 public:
  TensorArray(TensorArrayOptions options, std::int64_t size);

  const TensorArrayOptions& options() const { return options_; }
  Result<std::int64_t> size() const;
  // After one tensor was taken apart into the values so far: its gradient has as many, whatever is written later.
  void mark_size();
  // How many values are put together to one tensor: all, or of a gradient those that its array was marked with.
  Result<std::int64_t> packed_size() const;
  Status write(std::int64_t index, Tensor value);
  // A place never written gives zeros where its shape is known.
  Result<Tensor> read(std::int64_t index);
  // Drops the values. Later calls fail.
  void close();
  // An array of the same length for gradients of these values, whose shapes have `prepended` before them; afterwards
  // this one's length is fixed.
  Result<std::shared_ptr<TensorArray>> make_gradient(std::string name, const Shape& prepended = {});

  std::string debug_string() const override;

 private:
  struct Place {
    Tensor value;
    std::optional<Shape> shape;  // of the value, also after it was let go, and of a gradient's counterpart
    bool written = false;
    bool cleared = false;
  };
  Status check_open() const TUTTI_REQUIRES(mu_);
  Status make_room(std::int64_t index) TUTTI_REQUIRES(mu_);
  Status check_shape(const Shape& shape, std::int64_t index) TUTTI_REQUIRES(mu_);
  Status add_to(Place& place, const Tensor& value) TUTTI_REQUIRES(mu_);

  const TensorArrayOptions options_;
  mutable Mutex mu_;
  PartialShape element_shape_ TUTTI_GUARDED_BY(mu_);
  std::int64_t size_ TUTTI_GUARDED_BY(mu_);
  // Of these, those that were written or read: a length says nothing about how many come to hold something.
  std::unordered_map<std::int64_t, Place> places_ TUTTI_GUARDED_BY(mu_);
  // Of an array when it was marked, and of its gradient.
  std::optional<std::int64_t> marked_size_ TUTTI_GUARDED_BY(mu_);
  bool may_grow_ TUTTI_GUARDED_BY(mu_);
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

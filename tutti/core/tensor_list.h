// A list of tensors as a value: the element of a variant tensor, as loops and their gradients pass it around.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/shape.h"
#include "tutti/core/tensor.h"
#include "tutti/core/variant.h"

namespace tutti {

// Depth of the objects that a tensor holds; 0 without.
int variant_depth(const Tensor& tensor);
// Depth of an object that holds these.
int depth_with(const std::vector<Tensor>& held);

// Immutable: a change gives a new list. Lists share their items: appending to the longest of those that share
// writes behind what the others see and so takes constant time, unless the item is deeper than all before it;
// everything else that changes items copies the list of tensors (never their elements), unless nobody else sees them.
// Thread-safe.
class TensorList : public VariantObject {
 public:
  // `max_items` below 0: no limit.
  TensorList(DType dtype, PartialShape element_shape, std::int64_t max_items = -1);
  // With items; one without a value reads as zeros.
  TensorList(DType dtype, PartialShape element_shape, std::vector<Tensor> items, std::int64_t max_items = -1);

  DType dtype() const { return dtype_; }
  const PartialShape& element_shape() const { return element_shape_; }
  std::int64_t max_items() const { return max_items_; }
  std::int64_t size() const { return size_; }
  // No value when the item was never set. REQUIRES: 0 <= i < size().
  Tensor item(std::int64_t i) const;
  // All of them, in order.
  std::vector<Tensor> items() const;

  std::shared_ptr<const TensorList> with_pushed(Tensor item) const;
  // Without the last item. REQUIRES: size() > 0.
  std::shared_ptr<const TensorList> with_popped() const;
  // Takes `list` over: when it is held nowhere else, and shares its items with no other, nothing is copied.
  // REQUIRES: 0 <= i < list->size().
  static std::shared_ptr<const TensorList> with_item(std::shared_ptr<const TensorList> list, std::int64_t i,
                                                     Tensor item);
  std::shared_ptr<const TensorList> resized(std::int64_t size) const;

  // What every item's shape agrees with; kInvalidArgument when they contradict each other.
  Result<PartialShape> common_shape() const;

  std::string type_name() const override { return "tensorflow::TensorList"; }
  std::string debug_string() const override;

 private:
  struct Items {
    Mutex mu;
    // Never shrinks. A list sees the first size_ of them, which change only while nobody else has the list or the
    // items.
    std::vector<Tensor> tensors TUTTI_GUARDED_BY(mu);
  };
  TensorList(const TensorList& like, std::shared_ptr<Items> items, std::int64_t size, int depth);

  const DType dtype_;
  const PartialShape element_shape_;
  const std::int64_t max_items_ = -1;
  const std::int64_t size_ = 0;
  const std::shared_ptr<Items> items_;
};

}  // namespace tutti

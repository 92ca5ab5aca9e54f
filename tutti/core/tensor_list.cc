#include "tutti/core/tensor_list.h"

#include <algorithm>
#include <utility>

namespace tutti {

int variant_depth(const Tensor& tensor) {
  if (!tensor.has_value() || tensor.dtype() != DType::kVariant) return 0;
  int depth = 0;
  for (const Variant& element : tensor.flat<Variant>()) {
    if (element.has_value()) depth = std::max(depth, element.object()->depth());
  }
  return depth;
}

int depth_with(const std::vector<Tensor>& held) {
  int depth = 0;
  for (const Tensor& tensor : held) depth = std::max(depth, variant_depth(tensor));
  return depth + 1;
}

TensorList::TensorList(DType dtype, PartialShape element_shape, std::int64_t max_items)
    : dtype_(dtype),
      element_shape_(std::move(element_shape)),
      max_items_(max_items),
      items_(std::make_shared<Items>()) {}

TensorList::TensorList(DType dtype, PartialShape element_shape, std::vector<Tensor> items, std::int64_t max_items)
    : VariantObject(depth_with(items)),
      dtype_(dtype),
      element_shape_(std::move(element_shape)),
      max_items_(max_items),
      size_(static_cast<std::int64_t>(items.size())),
      items_(std::make_shared<Items>()) {
  MutexLock lock(items_->mu);
  items_->tensors = std::move(items);
}

TensorList::TensorList(const TensorList& like, std::shared_ptr<Items> items, std::int64_t size, int depth)
    : VariantObject(depth),
      dtype_(like.dtype_),
      element_shape_(like.element_shape_),
      max_items_(like.max_items_),
      size_(size),
      items_(std::move(items)) {}

Tensor TensorList::item(std::int64_t i) const {
  MutexLock lock(items_->mu);
  return items_->tensors[i];
}

std::vector<Tensor> TensorList::items() const {
  MutexLock lock(items_->mu);
  return {items_->tensors.begin(), items_->tensors.begin() + size_};
}

std::shared_ptr<const TensorList> TensorList::with_pushed(Tensor item) const {
  const int deepest = std::max(depth(), 1 + variant_depth(item));
  // Lists that share their items are all as deep as the deepest of these: a deeper one behind what this list sees would
  // make it deeper than it says, and could hold this list itself.
  if (deepest == depth()) {
    MutexLock lock(items_->mu);
    if (static_cast<std::int64_t>(items_->tensors.size()) == size_) {
      items_->tensors.push_back(std::move(item));
      return std::shared_ptr<const TensorList>(new TensorList(*this, items_, size_ + 1, deepest));
    }
  }
  auto fresh = std::make_shared<Items>();
  {
    MutexLock lock(fresh->mu);
    fresh->tensors = items();
    fresh->tensors.push_back(std::move(item));
  }
  return std::shared_ptr<const TensorList>(new TensorList(*this, std::move(fresh), size_ + 1, deepest));
}

std::shared_ptr<const TensorList> TensorList::with_popped() const {
  return std::shared_ptr<const TensorList>(new TensorList(*this, items_, size_ - 1, depth()));
}

std::shared_ptr<const TensorList> TensorList::with_item(std::shared_ptr<const TensorList> list, std::int64_t i,
                                                        Tensor item) {
  const int deepest = std::max(list->depth(), 1 + variant_depth(item));
  // Nobody can become a holder meanwhile (an item that holds this list counts as one), and what former holders read
  // they read under the items' lock.
  std::shared_ptr<Items> items;
  if (list.use_count() == 1 && list->items_.use_count() == 1) {
    items = list->items_;
  } else {
    items = std::make_shared<Items>();
    MutexLock lock(items->mu);
    items->tensors = list->items();
  }
  {
    MutexLock lock(items->mu);
    std::swap(items->tensors[i], item);  // what was there may be large to destroy: not under the lock
  }
  if (deepest == list->depth() && items == list->items_) return list;
  return std::shared_ptr<const TensorList>(new TensorList(*list, std::move(items), list->size_, deepest));
}

std::shared_ptr<const TensorList> TensorList::resized(std::int64_t size) const {
  if (size <= size_) return std::shared_ptr<const TensorList>(new TensorList(*this, items_, size, depth()));
  {
    MutexLock lock(items_->mu);
    if (static_cast<std::int64_t>(items_->tensors.size()) == size_) {
      items_->tensors.resize(size);
      return std::shared_ptr<const TensorList>(new TensorList(*this, items_, size, depth()));
    }
  }
  auto fresh = std::make_shared<Items>();
  {
    MutexLock lock(fresh->mu);
    fresh->tensors = items();
    fresh->tensors.resize(size);
  }
  return std::shared_ptr<const TensorList>(new TensorList(*this, std::move(fresh), size, depth()));
}

Result<PartialShape> TensorList::common_shape() const {
  PartialShape shape = element_shape_;
  MutexLock lock(items_->mu);
  for (std::int64_t i = 0; i < size_; ++i) {
    const Tensor& item = items_->tensors[i];
    if (!item.has_value()) continue;
    TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(item.shape()));
  }
  return shape;
}

std::string TensorList::debug_string() const {
  return str_cat("list of ", size_, " ", dtype_name(dtype_), " ", element_shape_);
}

}  // namespace tutti

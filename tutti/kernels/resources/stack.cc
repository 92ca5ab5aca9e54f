#include "tutti/kernels/resources/stack.h"

#include <utility>

namespace tutti {

Status Stack::check_open() const {
  if (closed_) return invalid_argument("Stack[", printable(name_), "] has already been closed.");
  return {};
}

Status Stack::push(Tensor item) {
  if (item.dtype() != dtype_) {
    return invalid_argument("Must have type ", dtype_name(dtype_), " but got ", dtype_name(item.dtype()));
  }
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  if (max_items_ >= 0 && static_cast<std::int64_t>(items_.size()) >= max_items_) {
    return invalid_argument("Stack[", printable(name_), "] overflowed its max_size (", max_items_, ")");
  }
  items_.push_back(std::move(item));
  return {};
}

Result<Tensor> Stack::pop() {
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  if (items_.empty()) return invalid_argument("Stack[", printable(name_), "] is empty when calling Pop().");
  Tensor item = std::move(items_.back());
  items_.pop_back();
  return item;
}

void Stack::close() {
  std::vector<Tensor> dropped;  // destroyed after the lock is gone
  MutexLock lock(mu_);
  dropped.swap(items_);
  closed_ = true;
}

std::string Stack::debug_string() const {
  MutexLock lock(mu_);
  return str_cat("stack of ", items_.size(), " ", dtype_name(dtype_));
}

}  // namespace tutti

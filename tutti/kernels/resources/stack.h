// A last-in-first-out store of tensors that lives for a step: what v1 loops keep for their gradients.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// Thread-safe.
class Stack : public Resource {
 public:
  // `max_items` below 0: no limit.
  Stack(std::string name, DType dtype, std::int64_t max_items)
      : name_(std::move(name)), dtype_(dtype), max_items_(max_items) {}

  DType dtype() const { return dtype_; }
  // kInvalidArgument when it is closed, full or of another dtype.
  Status push(Tensor item);
  // kInvalidArgument when it is closed or empty.
  Result<Tensor> pop();
  // Drops the items. Later calls fail.
  void close();

  std::string debug_string() const override;

 private:
  Status check_open() const TUTTI_REQUIRES(mu_);

  const std::string name_;
  const DType dtype_;
  const std::int64_t max_items_;
  mutable Mutex mu_;
  std::vector<Tensor> items_ TUTTI_GUARDED_BY(mu_);
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

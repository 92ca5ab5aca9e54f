// A tensor inside a variant.
#pragma once

#include <string>

#include "tutti/core/tensor.h"
#include "tutti/core/variant.h"

namespace tutti {

class TensorVariant : public VariantObject {
 public:
  // REQUIRES: tensor.dtype() is no kVariant: those would lie in one another without end.
  explicit TensorVariant(Tensor tensor) : tensor_(std::move(tensor)) {}
  const Tensor& tensor() const { return tensor_; }
  std::string type_name() const override { return "tensorflow::Tensor"; }
  std::string debug_string() const override { return tensor_.to_string(); }

 private:
  const Tensor tensor_;
};

}  // namespace tutti

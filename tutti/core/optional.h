// Tensors that may be there or not, as a value: the element of a variant tensor.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/tensor.h"
#include "tutti/core/variant.h"

namespace tutti {

// Immutable, hence thread-safe.
class Optional : public VariantObject {
 public:
  // No components: nothing is there. An optional that has a value has at least one.
  explicit Optional(std::vector<Tensor> components);
  const std::vector<Tensor>& components() const { return components_; }
  std::string type_name() const override { return "tensorflow::data::Optional"; }
  std::string debug_string() const override;

 private:
  const std::vector<Tensor> components_;
};

}  // namespace tutti

#include "tutti/core/optional.h"

#include <utility>

#include "tutti/core/tensor_list.h"

namespace tutti {

Optional::Optional(std::vector<Tensor> components)
    : VariantObject(depth_with(components)), components_(std::move(components)) {}

std::string Optional::debug_string() const { return str_cat("optional of ", components_.size(), " components"); }

}  // namespace tutti

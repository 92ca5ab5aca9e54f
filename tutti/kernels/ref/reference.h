// Slow and obvious versions of numeric ops, for tests: every element by itself, in double, in wide integers or in
// complex<double>, whatever the dtype.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

using ReferenceFn = std::function<Result<std::vector<Tensor>>(const AttrMap& attrs, const std::vector<Tensor>& inputs)>;

// Null when the op has none. Missing attributes have their defaults; kInvalidArgument where the op refuses its inputs.
const ReferenceFn* find_reference(std::string_view op);

}  // namespace tutti

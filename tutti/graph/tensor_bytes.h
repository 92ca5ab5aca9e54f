// Tensors as the bytes of a TensorProto, for ops that keep them in strings.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/tensor.h"

namespace tutti {

// kInvalidArgument for bytes that are no tensor.
Result<Tensor> tensor_from_bytes(std::string_view bytes);
// kUnimplemented for variants.
Result<std::string> tensor_to_bytes(const Tensor& tensor);

}  // namespace tutti

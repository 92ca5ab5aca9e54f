// Tensors as bytes: serialized TensorProtos, with the elements packed, as TensorFlow writes them.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// kUnimplemented for tensors of variants and handles.
Result<std::string> tensor_to_bytes(const Tensor& tensor);
// kInvalidArgument for bytes that are no tensor; kResourceExhausted for those that claim too much.
Result<Tensor> tensor_from_bytes(std::string_view bytes);

}  // namespace tutti

// Tensors as the bytes of a TensorProto, for ops that keep them in strings.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// How the elements of a string tensor lie in the message.
enum class StringElements {
  kField,   // a field each, as SerializeTensor writes them
  kPacked,  // their lengths and then all of them, as in checkpoints and in serialised sparse tensors
};

// kUnimplemented for tensors of variants and handles; kInvalidArgument for one that is too large for a message.
Result<std::string> tensor_to_bytes(const Tensor& tensor, StringElements strings);
// kInvalidArgument for bytes that are no tensor; kResourceExhausted for those that claim too much.
Result<Tensor> tensor_from_bytes(std::string_view bytes);

}  // namespace tutti

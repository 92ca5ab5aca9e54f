// Tensors as the bytes of a TensorProto, for ops that keep them in strings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// How the elements of a string tensor lie in the message.
enum class StringElements {
  kField,   // a field each, as SerializeTensor writes them
  kPacked,  // their lengths and then all of them, as in checkpoints and in serialised sparse tensors
};

// kUnimplemented for tensors of handles; kInvalidArgument for one that is too large for a message. Variants as
// check_writable() in variant_data.h says.
Result<std::string> tensor_to_bytes(const Tensor& tensor, StringElements strings);
// kInvalidArgument for bytes that are no tensor; kResourceExhausted for those that claim too much.
Result<Tensor> tensor_from_bytes(std::string_view bytes);

// The elements of a tensor of variants, each as the bytes of a VariantTensorDataProto; errors as above.
Result<std::vector<std::string>> variants_to_bytes(const Tensor& tensor);
// Fills a tensor of variants. REQUIRES: as many as it has elements.
Status variants_from_bytes(std::span<const std::string_view> bytes, Tensor& tensor);

}  // namespace tutti

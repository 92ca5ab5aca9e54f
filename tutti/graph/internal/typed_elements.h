// Numbers in the lists of a TensorProto that suit their types.
#pragma once

#include <cstdint>

#include "tutti/core/tensor.h"

namespace tensorflow {
class TensorProto;
}

namespace tutti {

// How many elements the list that suits the type has.
std::int64_t count_typed_elements(const tensorflow::TensorProto& proto, DType dtype);

// REQUIRES: !is_object(tensor.dtype()); the message has no elements.
void encode_typed_numbers(const Tensor& tensor, tensorflow::TensorProto* proto);

}  // namespace tutti

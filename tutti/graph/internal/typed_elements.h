// Numbers in the lists of a TensorProto that suit their types.
#pragma once

#include "tutti/core/tensor.h"

namespace tensorflow {
class TensorProto;
}

namespace tutti {

// REQUIRES: !is_object(tensor.dtype()); the message has no elements.
void encode_typed_numbers(const Tensor& tensor, tensorflow::TensorProto* proto);

}  // namespace tutti

// Elements in the typed lists of a TensorProto that has neither type nor shape: how slice files store them.
#pragma once

#include "tutti/core/tensor.h"

namespace tensorflow {
class TensorProto;
}

namespace tutti {

// kUnimplemented for a type that slice files do not know, kInvalidArgument for a tensor too large for a message.
Status encode_slice_elements(const Tensor& tensor, tensorflow::TensorProto* proto);

// kDataLoss when there are not as many elements as the shape has.
Result<Tensor> decode_slice_elements(const tensorflow::TensorProto& proto, DType dtype, const Shape& shape,
                                     Allocator& allocator);

}  // namespace tutti

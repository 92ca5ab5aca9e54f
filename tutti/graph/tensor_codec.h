// Tensors as protobuf messages.
#pragma once

#include <cstdint>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tensorflow {
class TensorProto;
class TensorShapeProto;
}  // namespace tensorflow

namespace tutti {

// A message may declare a large shape and carry few values, the last of which repeats. What it may make
// of nothing is counted here, for all tensors of one message from outside.
struct ExpansionBudget {
  std::int64_t bytes_left = std::int64_t{1} << 30;
};

// Both forms of elements, packed and typed. kInvalidArgument gives the type, shape or length that is wrong;
// kResourceExhausted when memory or `budget` is; kUnimplemented for variants, which have no bytes here.
Result<Tensor> decode_tensor(const tensorflow::TensorProto& proto, ExpansionBudget& budget);
Result<Tensor> decode_tensor(const tensorflow::TensorProto& proto);

// Sets type, shape and elements (packed, but strings and handles in their lists); leaves other fields alone.
// kUnimplemented for a variant that holds something; type and shape are set then too.
Status encode_tensor(const Tensor& tensor, tensorflow::TensorProto* proto);

// Drops the elements in every form.
void clear_elements(tensorflow::TensorProto* proto);

Result<PartialShape> decode_shape(const tensorflow::TensorShapeProto& proto);
// Keeps the names of dimensions where sizes stay.
void encode_shape(const PartialShape& shape, tensorflow::TensorShapeProto* proto);

}  // namespace tutti

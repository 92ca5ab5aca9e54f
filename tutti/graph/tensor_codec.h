// Tensors as protobuf messages.
#pragma once

#include <cstdint>
#include <string_view>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tensorflow {
class TensorProto;
class TensorShapeProto;
class VariantTensorDataProto;
}  // namespace tensorflow

namespace tutti {

// A message may declare a large shape and carry few values, the last of which repeats. What it may make
// of nothing is counted here, for all tensors of one message from outside.
struct ExpansionBudget {
  std::int64_t bytes_left = std::int64_t{1} << 30;
  int variants_around = 0;  // the tensor that is being read now

  // kResourceExhausted, naming `what`, when there are fewer left. REQUIRES: bytes >= 0.
  Status take(std::int64_t bytes, std::string_view what);
};

// Both forms of elements, packed and typed. kInvalidArgument gives the type, shape or length that is wrong;
// kResourceExhausted when memory or `budget` is; kUnimplemented for variants of a type that Tutti does not know.
Result<Tensor> decode_tensor(const tensorflow::TensorProto& proto, ExpansionBudget& budget);
Result<Tensor> decode_tensor(const tensorflow::TensorProto& proto);

// Sets type, shape and elements (packed, but strings, handles and variants in their lists); leaves other fields alone.
// Fails for variants that cannot be written (check_writable in variant_data.h); type and shape are set then too.
Status encode_tensor(const Tensor& tensor, tensorflow::TensorProto* proto);

// How elements of the tensors in a variant are written.
enum class NestedElements {
  kPacked,  // as encode_tensor does
  kTyped,   // in the list that suits the type, as TensorFlow does in files and strings
};
// REQUIRES: check_writable() of the tensor that the variant lies in.
void encode_variant(const Variant& variant, NestedElements nested, tensorflow::VariantTensorDataProto* proto);
Result<Variant> decode_variant(const tensorflow::VariantTensorDataProto& proto, ExpansionBudget& budget);

// Drops the elements in every form.
void clear_elements(tensorflow::TensorProto* proto);

Result<PartialShape> decode_shape(const tensorflow::TensorShapeProto& proto);
// Keeps the names of dimensions where sizes stay.
void encode_shape(const PartialShape& shape, tensorflow::TensorShapeProto* proto);

}  // namespace tutti

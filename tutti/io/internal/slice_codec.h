// Slices as messages and as parts of keys.
#pragma once

#include <string>
#include <string_view>

#include "tutti/io/tensor_slice.h"

namespace tensorflow {
class TensorSliceProto;
}

namespace tutti {

// Under which a slice of a tensor lies in a checkpoint's table. Sorts before all names that do not begin with a zero.
std::string slice_key(std::string_view tensor, const TensorSlice& slice);

void encode_slice(const TensorSlice& slice, tensorflow::TensorSliceProto* proto);
// kDataLoss when it is a part of no tensor.
Result<TensorSlice> decode_slice(const tensorflow::TensorSliceProto& proto);

}  // namespace tutti

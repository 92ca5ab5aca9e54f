// The messages in which checkpoints hold variants.
#pragma once

#include "tutti/graph/tensor_bytes.h"
#include "tutti/io/variant_codec.h"

namespace tutti {

inline constexpr VariantCodec kVariantMessages{.encode = variants_to_bytes, .decode = variants_from_bytes};

}  // namespace tutti

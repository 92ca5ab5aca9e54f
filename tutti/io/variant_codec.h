// How checkpoints store variants: as messages that hold tensors, which the layer above this one reads and writes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// `kVariantMessages` in tutti/ops/host/variant_messages.h is the one that TensorFlow understands. Thread-safe.
struct VariantCodec {
  // The message of each element. kUnimplemented for objects that have none.
  Result<std::vector<std::string>> (*encode)(const Tensor& variants);
  // Fills a tensor of variants from as many messages as it has elements. kInvalidArgument for malformed ones,
  // kUnimplemented for objects that are not known.
  Status (*decode)(std::span<const std::string_view> messages, Tensor& variants);
};

}  // namespace tutti

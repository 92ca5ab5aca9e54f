// Tensors as TensorProto bytes, without a copy of the elements where possible.
#pragma once

#include <cstdint>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/distributed/internal/wire.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti {

// Elements of fewer bytes are copied into the message: a piece of their own would cost more than the copy.
inline constexpr std::size_t kMinSharedBytes = 256;

// REQUIRES: tensor.has_value().
std::uint64_t tensor_wire_size(const Tensor& tensor);
// Type, shape, then the elements: packed, but strings, handles and variants in their lists. Fails for variants that
// cannot be written (check_writable in tutti/graph/variant_data.h). REQUIRES: tensor.has_value().
Status write_tensor(const Tensor& tensor, WireWriter& out);

// Over memory that another process has lent lie only tensors of floating or complex numbers, of this size or more: it
// could change them after a kernel has checked them, which must not make indices wrong. Smaller ones cost little to
// copy.
inline constexpr std::size_t kMinLentTensorBytes = 64 << 10;

// All forms that TensorFlow writes. Packed elements that lie in one piece, aligned, become a tensor over the message's
// memory, never unique(); the message then lives as long as the tensor does. So do those in variants.
Result<Tensor> read_tensor(WireReader bytes, ExpansionBudget& budget);

}  // namespace tutti

// Making a part of a tensor out of the parts that are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tutti/core/tensor.h"
#include "tutti/io/tensor_slice.h"

namespace tutti {

struct StoredParts {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape full_shape;
  std::vector<TensorSlice> slices;
};

// Reads stored part i, whole.
using ReadPart = std::function<Result<Tensor>(const TensorSlice& slice)>;

// `wanted` of the tensor. kInvalidArgument when the parts do not cover it, kInternal when they overlap there or a
// part is not what it should be. `stored_bytes`, what the files hold, bounds what is allocated: the shape of the whole
// is just a claim.
Result<Tensor> assemble(const StoredParts& parts, const TensorSlice& wanted, std::uint64_t stored_bytes,
                        const ReadPart& read, Allocator& allocator);

// Cuts `slice` out of a whole tensor.
Result<Tensor> cut(const Tensor& whole, const TensorSlice& slice, Allocator& allocator);

}  // namespace tutti

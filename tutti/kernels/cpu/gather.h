// Kernels that pick or place rows by index.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

class BinaryFunction;

// Output 0 = params with dimension `axis` replaced by the dimensions of indices; the first `batch_dims`
// dimensions of both go together. An index out of range is kInvalidArgument "indices[i] = v is not in [0, N)".
Status gather_rows(KernelContext& ctx, const Tensor& params, const Tensor& indices, std::int64_t axis,
                   std::int64_t batch_dims);
// kInvalidArgument unless every index lies in [0, limit).
Status check_indices(const Tensor& indices, std::int64_t limit);

Status gather(KernelContext& ctx);  // axis 0
KernelFactory gather_v2_kernel();
Status gather_nd(KernelContext& ctx);
Status scatter_nd(KernelContext& ctx);

// Puts slices of `updates` where the tuples of `indices` point to in `to`: combined with what is there, or where
// `combine` is null in its place. Writes nothing on an error.
Status scatter_slices(const Tensor& indices, const Tensor& updates, const BinaryFunction* combine, Tensor& to);

}  // namespace tutti::cpu

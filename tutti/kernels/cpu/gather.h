// Kernels that pick or place rows by index.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

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

}  // namespace tutti::cpu

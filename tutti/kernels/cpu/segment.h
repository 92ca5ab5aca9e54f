// Kernels that join groups of rows, or sum and multiply along a dimension as it grows.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status unsorted_segment_sum(KernelContext& ctx);
Status segment_sum(KernelContext& ctx);
KernelFactory cumsum_kernel();
KernelFactory cumprod_kernel();

// segment_reduce.cc. Sorted: groups without rows are 0 (products: 1). Unsorted: what joins with anything leaves that
// as it is: 1, the least or the largest number.
Status segment_mean(KernelContext& ctx);
Status segment_prod(KernelContext& ctx);
Status segment_min(KernelContext& ctx);
Status segment_max(KernelContext& ctx);
Status unsorted_segment_prod(KernelContext& ctx);
Status unsorted_segment_min(KernelContext& ctx);
Status unsorted_segment_max(KernelContext& ctx);

// What they share: input 0 is data, 1 segment_ids, 2 num_segments (of the unsorted ones).
// Checks the inputs and gives the number of segments.
Result<std::int64_t> unsorted_segments(KernelContext& ctx);
Result<std::int64_t> sorted_segments(KernelContext& ctx);
// Output 0, with a row for each segment.
Result<Tensor*> allocate_segments(KernelContext& ctx, std::int64_t segments);

}  // namespace tutti::cpu

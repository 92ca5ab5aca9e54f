// Kernels that sum along groups of rows, or sum and multiply along a dimension as it grows.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status unsorted_segment_sum(KernelContext& ctx);
Status segment_sum(KernelContext& ctx);
KernelFactory cumsum_kernel();
KernelFactory cumprod_kernel();

}  // namespace tutti::cpu

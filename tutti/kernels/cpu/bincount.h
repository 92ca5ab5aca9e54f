// Kernels that put numbers into bins.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory bucketize_kernel();
Status bincount(KernelContext& ctx);
KernelFactory dense_bincount_kernel();
KernelFactory sparse_bincount_kernel();
KernelFactory ragged_bincount_kernel();

}  // namespace tutti::cpu

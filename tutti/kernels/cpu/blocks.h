// Blocks of space moved to the batch or to the channels, and back.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: input, block_shape [M], paddings or crops [M, 2].
Status space_to_batch_nd(KernelContext& ctx);
Status batch_to_space_nd(KernelContext& ctx);
// Inputs: input of rank 4, paddings or crops [2, 2]; attribute block_size.
KernelFactory space_to_batch_kernel();
KernelFactory batch_to_space_kernel();
// Input of rank 4; attributes block_size and data_format, of which there is NHWC.
KernelFactory space_to_depth_kernel();
KernelFactory depth_to_space_kernel();

}  // namespace tutti::cpu

// Kernels that write and read checkpoints.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti {

KernelFactory save_v2_kernel();
KernelFactory restore_v2_kernel();
KernelFactory merge_v2_checkpoints_kernel();
KernelFactory save_kernel();
KernelFactory save_slices_kernel();
KernelFactory restore_kernel();
KernelFactory restore_slice_kernel();

Status sharded_filename(KernelContext& ctx);
Status sharded_filespec(KernelContext& ctx);

}  // namespace tutti

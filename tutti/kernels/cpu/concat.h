// Kernels that join tensors and take them apart.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status concat(KernelContext& ctx);     // the axis is the first input
Status concat_v2(KernelContext& ctx);  // the axis is the last input
KernelFactory pack_kernel();
KernelFactory unpack_kernel();
Status split(KernelContext& ctx);
Status split_v(KernelContext& ctx);

}  // namespace tutti::cpu

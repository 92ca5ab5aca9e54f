// Kernels that put the same elements in another order, or repeat them.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status transpose(KernelContext& ctx);
// The same with complex conjugates.
Status conjugate_transpose(KernelContext& ctx);
Status tile(KernelContext& ctx);
Status broadcast_to(KernelContext& ctx);
Status reverse(KernelContext& ctx);

}  // namespace tutti::cpu

// Kernels that cut boxes out of tensors and put them back.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status slice(KernelContext& ctx);
KernelFactory strided_slice_kernel();
KernelFactory strided_slice_grad_kernel();
Status pad(KernelContext& ctx);  // Pad, and PadV2 with the value as input 2

}  // namespace tutti::cpu

// Kernels that cut boxes out of tensors and put them back.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status slice(KernelContext& ctx);
KernelFactory strided_slice_kernel();
KernelFactory strided_slice_grad_kernel();
// A value put where a strided slice is: into a variable, of which input 0 is a reference or a handle, or into input 0.
KernelFactory strided_slice_assign_kernel();
KernelFactory tensor_strided_slice_update_kernel();
Status pad(KernelContext& ctx);  // Pad, and PadV2 with the value as input 2

}  // namespace tutti::cpu

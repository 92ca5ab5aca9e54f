// Kernels of tensor arrays, state of a step. `flow` values only order reads after writes.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory tensor_array_kernel();
KernelFactory tensor_array_grad_kernel();
Status tensor_array_write(KernelContext& ctx);
KernelFactory tensor_array_read_kernel();
KernelFactory tensor_array_gather_kernel();
Status tensor_array_scatter(KernelContext& ctx);
KernelFactory tensor_array_concat_kernel();
Status tensor_array_split(KernelContext& ctx);
Status tensor_array_size(KernelContext& ctx);
Status tensor_array_close(KernelContext& ctx);

}  // namespace tutti::cpu

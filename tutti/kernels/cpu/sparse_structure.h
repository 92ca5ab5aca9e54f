// Kernels that rearrange sparse tensors: other shapes, other orders, parts and joins. Values of any type.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status sparse_reshape(KernelContext& ctx);
Status sparse_reorder(KernelContext& ctx);
Status sparse_slice(KernelContext& ctx);
Status sparse_slice_grad(KernelContext& ctx);
KernelFactory sparse_concat_kernel();
Status sparse_split(KernelContext& ctx);
Status sparse_fill_empty_rows(KernelContext& ctx);
Status sparse_fill_empty_rows_grad(KernelContext& ctx);

}  // namespace tutti::cpu

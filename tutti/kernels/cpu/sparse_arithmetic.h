// Kernels that compute with sparse tensors in coordinates.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status sparse_add(KernelContext& ctx);
Status sparse_add_grad(KernelContext& ctx);
Status sparse_tensor_dense_add(KernelContext& ctx);
Status sparse_dense_add(KernelContext& ctx);
Status sparse_dense_multiply(KernelContext& ctx);
Status sparse_dense_divide(KernelContext& ctx);
Status sparse_softmax(KernelContext& ctx);
Status sparse_maximum(KernelContext& ctx);
Status sparse_minimum(KernelContext& ctx);

// sparse_reduce.cc: over the axes in input 3, attribute keep_dims. Dense results are 0 where nothing was.
KernelFactory sparse_reduce_sum_kernel();
KernelFactory sparse_reduce_max_kernel();
KernelFactory sparse_reduce_sum_sparse_kernel();
KernelFactory sparse_reduce_max_sparse_kernel();

}  // namespace tutti::cpu

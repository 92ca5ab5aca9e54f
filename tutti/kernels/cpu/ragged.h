// Kernels of ragged tensors: values, and for each ragged dimension where its rows begin ("splits").
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status ragged_range(KernelContext& ctx);
Status ragged_tensor_to_sparse(KernelContext& ctx);
Status ragged_gather(KernelContext& ctx);
// ragged_to_tensor.cc. Attribute row_partition_types says what the partition inputs are.
KernelFactory ragged_tensor_to_tensor_kernel();

}  // namespace tutti::cpu

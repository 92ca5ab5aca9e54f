// Kernels that make elements from nothing: constants, counts, one-hot rows.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status fill(KernelContext& ctx);
Status zeros_like(KernelContext& ctx);  // of a list of tensors or an optional, one of zeros
Status ones_like(KernelContext& ctx);
Status range(KernelContext& ctx);
Status lin_space(KernelContext& ctx);
KernelFactory one_hot_kernel();

}  // namespace tutti::cpu

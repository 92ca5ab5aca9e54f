// Scatters that make a new tensor: TensorScatterUpdate and its kin.
#pragma once

#include <optional>

#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs tensor, indices, updates. Nothing for `combine`: updates take the place of what was there.
KernelFactory tensor_scatter_kernel(std::optional<BinaryOp> combine);

}  // namespace tutti::cpu

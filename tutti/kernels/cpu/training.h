// Kernels of the Apply*, ResourceApply*, SparseApply* and ResourceSparseApply* ops.
#pragma once

#include <string>

#include "tutti/kernels/cpu/optimizer_update.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// One optimiser op. `inputs` has a letter for each input, in the op's order: v a variable or slot (reference or
// resource), s a scalar, n a scalar of int64, g the gradient, i the indices of the rows that the gradient is of.
// Attributes use_nesterov, update_slots and multiply_linear_by_lr are honoured where the op has them. Output 0, where
// there is one, is the variable's reference.
KernelFactory apply_kernel(UpdateRule rule, std::string inputs);

}  // namespace tutti::cpu

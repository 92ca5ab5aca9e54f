// Choosing elements: Select, SelectV2, ClipByValue.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Select: the condition has the shape of both branches, or is a scalar, or a vector that chooses rows.
Status select(KernelContext& context);
// SelectV2: condition and branches broadcast against each other.
Status select_v2(KernelContext& context);
// ClipByValue: bounds are scalars or have the tensor's shape.
KernelFactory clip_by_value_kernel();

}  // namespace tutti::cpu

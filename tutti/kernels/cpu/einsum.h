// Einsum: sums of products along named dimensions.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// One or two inputs of a type that can be multiplied; attribute equation.
KernelFactory einsum_kernel();

}  // namespace tutti::cpu

// Products of a sparse and a dense matrix.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs a_indices [count, 2], a_values [count], a_shape [2] and the dense b; attributes adjoint_a, adjoint_b (complex
// conjugates). Places that are listed twice are added up.
KernelFactory sparse_matmul_kernel();

}  // namespace tutti::cpu

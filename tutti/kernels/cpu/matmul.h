// MatMul, BatchMatMul and MatMul fused with what follows it.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs a, b of rank 2; attributes transpose_a, transpose_b.
KernelFactory matmul_kernel();
// Inputs a, b, bias; further attribute activation: "", "Relu", "Relu6", "Tanh" or "Sigmoid".
KernelFactory fused_matmul_kernel();
// Inputs a, b, sum, of floats: sum + a b, which is broadcast where shapes differ. The memory of `sum` is used again.
KernelFactory matmul_add_kernel();
// Inputs x, y of rank >= 2; attributes adj_x, adj_y (complex conjugates). Batch dimensions broadcast. Inputs of other
// types than the output's are converted to it.
KernelFactory batch_matmul_kernel();

}  // namespace tutti::cpu

// Padding with what lies beside the edge, and its gradient.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs input, paddings; attribute mode: "REFLECT" (without the edge itself) or "SYMMETRIC".
KernelFactory mirror_pad_kernel();
// Adds the paddings of input 0 to where they came from.
KernelFactory mirror_pad_grad_kernel();

}  // namespace tutti::cpu

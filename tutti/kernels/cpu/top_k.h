// The largest elements of each row.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Input 0, and k as input 1 or attribute "k". Outputs: values, largest first, and their places; of equal elements the
// first comes first. A NaN counts as larger than any number.
KernelFactory top_k_kernel();

}  // namespace tutti::cpu

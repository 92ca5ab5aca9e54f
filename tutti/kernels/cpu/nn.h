// Small kernels of networks that are neither element-wise nor reductions.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs value, bias [channels]; attributes data_format ("NHWC" where the op has none) and, where the op has it,
// activation: the op that comes after.
KernelFactory bias_add_kernel();
// Inputs predictions [b, c], targets [b] and, where attribute k is missing, k.
KernelFactory in_top_k_kernel();

}  // namespace tutti::cpu

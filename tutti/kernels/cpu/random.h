// Kernels that draw random numbers: the same bits as TensorFlow for the same seeds.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Attributes seed and seed2; both 0: seeded from the system's entropy. A kernel's runs continue one sequence.
KernelFactory random_uniform_kernel();
KernelFactory random_normal_kernel();
KernelFactory truncated_normal_kernel();
KernelFactory random_uniform_int_kernel();
KernelFactory random_shuffle_kernel();

}  // namespace tutti::cpu

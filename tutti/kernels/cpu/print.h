// What a graph says on the streams of the task that runs it.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory print_kernel();
KernelFactory print_v2_kernel();

}  // namespace tutti::cpu

// Kernels of staging areas. Those that may have to wait are asynchronous.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Every op of an area names it by its own attributes (container, shared_name) and makes it where it does not exist,
// with the limits capacity and memory_limit.
KernelFactory stage_kernel();
KernelFactory unstage_kernel();
KernelFactory stage_peek_kernel();
KernelFactory stage_size_kernel();
KernelFactory stage_clear_kernel();

}  // namespace tutti::cpu

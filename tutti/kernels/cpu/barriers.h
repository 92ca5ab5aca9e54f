// Kernels of barriers.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The op that makes a barrier. Attributes component_types, shapes, capacity, container, shared_name.
KernelFactory barrier_kernel();
KernelFactory barrier_insert_many_kernel();
KernelFactory barrier_take_many_kernel();
KernelFactory barrier_close_kernel();
Status barrier_ready_size(KernelContext& ctx);
Status barrier_incomplete_size(KernelContext& ctx);

}  // namespace tutti::cpu

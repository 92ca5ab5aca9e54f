// Kernels of conditional accumulators. Taking may have to wait and is asynchronous.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The ops that make one. Attributes dtype, shape, reduction_type, container, shared_name.
KernelFactory accumulator_kernel();
KernelFactory sparse_accumulator_kernel();
// Of both kinds: outputs are the parts of the average.
KernelFactory accumulator_take_kernel();

// The worker that sends may name itself in the attribute GradientLedger::kWorkerAttr.
KernelFactory accumulator_apply_kernel();
KernelFactory sparse_accumulator_apply_kernel();
Status accumulator_set_global_step(KernelContext& ctx);
Status accumulator_num_accumulated(KernelContext& ctx);

}  // namespace tutti::cpu

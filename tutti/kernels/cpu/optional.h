// Kernels of optional values: what a branch that was not taken hands to its gradient in place of intermediates.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status optional_none(KernelContext& ctx);
Status optional_from_value(KernelContext& ctx);
Status optional_has_value(KernelContext& ctx);
KernelFactory optional_get_value_kernel();

}  // namespace tutti::cpu

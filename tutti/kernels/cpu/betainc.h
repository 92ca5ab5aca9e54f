// The kernel of Betainc.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs a, b, x of float or double: those that are no scalars have one shape.
Status betainc_of(KernelContext& ctx);

}  // namespace tutti::cpu

// Unique slices of a tensor along a dimension, and how often each is there.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Input x and, where there is one, axis: none or one value. Outputs y, idx and, where there is one, count. Slices are
// listed as they first come; a NaN equals nothing.
Status unique_slices(KernelContext& ctx);

}  // namespace tutti::cpu

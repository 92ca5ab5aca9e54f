// What is in one list and not in another.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Elements of input 0 that input 1 lacks, in order, and their positions.
Status list_diff(KernelContext& ctx);

}  // namespace tutti::cpu

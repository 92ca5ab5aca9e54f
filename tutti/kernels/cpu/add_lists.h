// Sums of tensor lists, as gradients of lists need them.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Output 0: the item-wise sum of the lists in all inputs, which must agree in length, type and shapes. An item
// that was never set counts as zeros.
Status add_lists(KernelContext& context);

}  // namespace tutti::cpu

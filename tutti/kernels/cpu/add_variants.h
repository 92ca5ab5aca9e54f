// Sums of tensor lists and optionals, as gradients of lists and of branches need them.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Output 0: the item-wise sum of the lists in all inputs, which must agree in length, type and shapes, or the sum of
// their optionals, component by component. An item that was never set counts as zeros. Items may be lists themselves.
Status add_variants(KernelContext& context);

}  // namespace tutti::cpu

// Several element-wise ops in one pass over memory.
#pragma once

#include <string_view>

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Runs attribute "ops" (names of unary and binary element-wise ops), in order. "operands" has two numbers a
// step: k >= 0 is input k, -1 - s is the result of step s, INT64_MIN is "none" (of a unary op). The last step's result
// is the output. Inputs have the shape of the output or one element.
KernelFactory fused_elementwise_kernel();

// Whether an op of this name can be one of the steps.
bool is_fusable(std::string_view op);

}  // namespace tutti::cpu

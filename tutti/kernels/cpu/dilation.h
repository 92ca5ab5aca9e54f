// Kernels of Dilation2D, the largest sum of image and filter under a window, and its gradients. Attributes strides,
// rates, padding.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs images, filter [rows, columns, depth].
KernelFactory dilation_kernel();
// Inputs images, filter, gradient of the output, which goes to the first of the largest sums.
KernelFactory dilation_backprop_input_kernel();
KernelFactory dilation_backprop_filter_kernel();

}  // namespace tutti::cpu

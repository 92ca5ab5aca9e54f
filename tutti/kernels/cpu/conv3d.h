// Kernels of Conv3D and its gradients.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs input, filter [planes, rows, columns, inputs, outputs].
KernelFactory conv3d_kernel();
// Inputs input_sizes, filter, out_backprop.
KernelFactory conv3d_backprop_input_kernel();
// Inputs input, filter_sizes, out_backprop.
KernelFactory conv3d_backprop_filter_kernel();

}  // namespace tutti::cpu

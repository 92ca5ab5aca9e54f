// Kernels of AvgPool3D, MaxPool3D and their gradients. Attributes ksize, strides, padding, data_format.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Means are of the elements that are no padding.
KernelFactory avg_pool3d_kernel();
KernelFactory avg_pool3d_grad_kernel();  // inputs: shape of the volumes, gradient
KernelFactory max_pool3d_kernel();
// Inputs volumes, their maxima, gradient. All elements that equal the maximum get the gradient, as in TensorFlow.
KernelFactory max_pool3d_grad_kernel();
// The same inputs, with a gradient as large as the volumes: picks that of the first maximum of each window.
KernelFactory max_pool3d_grad_grad_kernel();

}  // namespace tutti::cpu

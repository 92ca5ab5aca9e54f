// Local response normalisation over the channels.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Input [batch, rows, columns, channels]: each element over (bias + alpha * squares of its neighbours) ^ beta.
KernelFactory lrn_kernel();
// Inputs input_grads, input_image, output_image.
KernelFactory lrn_grad_kernel();

}  // namespace tutti::cpu

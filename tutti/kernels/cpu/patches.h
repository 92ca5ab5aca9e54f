// Windows of images laid out as rows.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Input images; attributes ksizes, strides, rates, padding.
KernelFactory extract_image_patches_kernel();
// Inputs the shape of the images and the gradient of the patches: adds every patch to where it came from.
KernelFactory extract_image_patches_grad_kernel();

}  // namespace tutti::cpu

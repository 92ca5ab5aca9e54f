// Resizing of images [batch, height, width, channels].
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: images, size (int32 height and width). Attributes align_corners and, but for the area, half_pixel_centers.
KernelFactory resize_bilinear_kernel();  // to float
KernelFactory resize_bicubic_kernel();   // to float
KernelFactory resize_area_kernel();      // to float
KernelFactory resize_nearest_kernel();   // in the type of the images

// Inputs: grads (float), original_image, of whose type the output is.
KernelFactory resize_bilinear_grad_kernel();
KernelFactory resize_bicubic_grad_kernel();
// Inputs: grads, size of the original.
KernelFactory resize_nearest_grad_kernel();

// Inputs: images, size, scale, translation (float vectors of 2). Attributes kernel_type, antialias.
KernelFactory scale_and_translate_kernel();
// Inputs: grads, original_image, scale, translation.
KernelFactory scale_and_translate_grad_kernel();

}  // namespace tutti::cpu

// Boxes cut out of images and resized to one size.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: image [batch, height, width, channels], boxes [n, 4] (y1, x1, y2, x2 in shares of the image), the image of
// each box, crop_size. Attributes method, extrapolation_value.
KernelFactory crop_and_resize_kernel();
// Inputs: grads, boxes, box_ind, image_size.
KernelFactory crop_and_resize_grad_image_kernel();
// Inputs: grads, image, boxes, box_ind.
KernelFactory crop_and_resize_grad_boxes_kernel();

}  // namespace tutti::cpu

// Random places in images: the same as TensorFlow's for the same seeds.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: image [height, width, channels], size (int64 height and width).
KernelFactory random_crop_kernel();
// Inputs: image_size (height, width, channels), bounding_boxes [..., n, 4] and, unless it is an attribute,
// min_object_covered. Outputs: begin and size for a slice, and the box [1, 1, 4].
KernelFactory sample_distorted_bounding_box_kernel();

}  // namespace tutti::cpu

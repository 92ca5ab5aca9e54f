// Colours of images, channels innermost.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Red, green and blue in [0, 1] as hue, saturation and value in [0, 1], and back. Input [..., 3].
Status rgb_to_hsv(KernelContext& ctx);
Status hsv_to_rgb(KernelContext& ctx);
// Inputs: the gradient of rgb_to_hsv's output, its input. Where colours tie or are black, what TensorFlow gives.
Status rgb_to_hsv_grad(KernelContext& ctx);

// Inputs: images [..., height, width, channels], a factor. Away from each channel's mean.
Status adjust_contrast(KernelContext& ctx);
// Inputs: images [..., 3], how far round the circle.
Status adjust_hue(KernelContext& ctx);
// Inputs: images [..., 3], a factor.
Status adjust_saturation(KernelContext& ctx);

}  // namespace tutti::cpu

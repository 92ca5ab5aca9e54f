// Kernels of Conv2D and DepthwiseConv2dNative, their gradients, and Conv2D with the BiasAdd after it.
#pragma once

#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Sizes of a convolution of `input` with `filter` [rows, columns, inputs, outputs]; of a depthwise one, [rows, columns,
// inputs, outputs of each input]. Errors name the op and give the values.
Result<ConvShape> conv_shape(std::string_view op, const WindowAttrs& attrs, const Shape& input, const Shape& filter,
                             bool depthwise);

// Inputs input, filter.
KernelFactory conv_kernel(bool depthwise);
// Inputs input, filter, bias, in float; data_format NHWC.
KernelFactory biased_conv_kernel();
// Inputs input_sizes, filter, out_backprop.
KernelFactory conv_backprop_input_kernel(bool depthwise);
// Inputs input, filter_sizes, out_backprop.
KernelFactory conv_backprop_filter_kernel(bool depthwise);

}  // namespace tutti::cpu

// Pools: the maximum or the mean of each window of an image, and their derivatives.
#pragma once

#include <cstdint>

#include "tutti/kernels/cpu/window.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Images [batch, rows, columns, channels]. (NCHW is batch * channels images of one channel.)
struct PoolShape {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  WindowAxis rows;
  WindowAxis columns;

  std::int64_t image_elements() const { return count_elements(rows.in, columns.in, channels); }
  std::int64_t pooled_elements() const { return count_elements(rows.out, columns.out, channels); }
};

// Input value and, for the V2 op, ksize and strides: the maximum, or the mean of the elements that are no padding. NaN
// wins a maximum.
KernelFactory max_pool_kernel();
KernelFactory avg_pool_kernel();
// Inputs orig_input, orig_output, grad and, for the V2 op, ksize and strides. The gradient of a window goes to the
// first of its largest elements.
KernelFactory max_pool_grad_kernel();
// Likewise, and zero where orig_input is not positive: the gradient before a Relu whose output is orig_input, or whose
// input is, which has the same maxima wherever they are positive. A second output has the sum of each channel, which is
// the last dimension.
KernelFactory max_pool_relu_grad_kernel();
// The same inputs, with `grad` of the input's shape: the element of `grad` where each window has its maximum.
KernelFactory max_pool_grad_grad_kernel();
// Inputs orig_input_shape, grad.
KernelFactory avg_pool_grad_kernel();
// Input; outputs the maxima and their places, flattened (with the batch when include_batch_in_index).
KernelFactory max_pool_with_argmax_kernel();
// Inputs input, grad, argmax.
KernelFactory max_pool_grad_with_argmax_kernel();
KernelFactory max_pool_grad_grad_with_argmax_kernel();

namespace internal {
// Loops for one dtype. A row is one of the batch * rows.out rows of windows.
struct PoolLoops {
  void (*max_rows)(const PoolShape&, const void* in, void* out, std::int64_t begin, std::int64_t end) = nullptr;
  void (*mean_rows)(const PoolShape&, const void* in, void* out, std::int64_t begin, std::int64_t end) = nullptr;
  // Over images.
  void (*max_grad)(const PoolShape&, const void* in, const void* grad, void* to, std::int64_t begin,
                   std::int64_t end) = nullptr;
  // Each image has two rows of sums, one for each channel: what comes out, and room for work.
  void (*max_relu_grad)(const PoolShape&, const void* in, const void* grad, void* to, void* sums, std::int64_t begin,
                        std::int64_t end) = nullptr;
  void (*mean_grad)(const PoolShape&, const void* grad, void* to, std::int64_t begin, std::int64_t end) = nullptr;
  void (*max_grad_grad)(const PoolShape&, const void* in, const void* grad, void* to, std::int64_t begin,
                        std::int64_t end) = nullptr;
};
// float and double.
PoolLoops find_pool_loops(DType dtype);
// int32, int64 and uint64; no means.
PoolLoops find_integer_pool_loops(DType dtype);
}  // namespace internal

}  // namespace tutti::cpu

// Softmax over the last dimension, and cross-entropy on top of it.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory softmax_kernel();
KernelFactory log_softmax_kernel();
// Inputs features, labels (probabilities), broadcast to one matrix; outputs loss, backprop.
KernelFactory softmax_cross_entropy_kernel();
// Inputs features [b, c], labels [b]; outputs loss [b], backprop [b, c].
KernelFactory sparse_softmax_cross_entropy_kernel();

namespace internal {
// Loops over one row of n >= 1 elements, for float and double.
struct SoftmaxLoops {
  void (*softmax)(const void* logits, std::int64_t n, void* out) = nullptr;
  void (*log_softmax)(const void* logits, std::int64_t n, void* out) = nullptr;
  // labels[i * label_step]
  void (*cross_entropy)(const void* logits, const void* labels, int logit_step, int label_step, std::int64_t n,
                        void* loss, void* backprop) = nullptr;
  void (*sparse_cross_entropy)(const void* logits, std::int64_t label, std::int64_t n, void* loss,
                               void* backprop) = nullptr;
};
SoftmaxLoops find_softmax(DType dtype);
}  // namespace internal

}  // namespace tutti::cpu

// Element-wise kernels made on the spot, from a function of one element: all that a new op needs beside its row.
#pragma once

#include "tutti/kernels/cpu/internal/plain_loop.h"

namespace tutti::cpu {

// elementwise_kernel([](auto x) { return std::erfc(x); }): the function is called with float and with double; half and
// bfloat16 go through float. It must capture nothing. Ops that are worth vector code have their loops in
// unary_loops.cc.
template <typename F>
KernelFactory elementwise_kernel(F function) {
  return unary_kernel(internal::plain_unary<float>(function), internal::plain_unary<double>(function));
}

}  // namespace tutti::cpu

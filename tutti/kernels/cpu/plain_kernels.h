// Element-wise kernels of loops that are not in the enumerations of elementwise.h: functions that few models use.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/internal/plain_loop.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// A loop over elements of `in` that writes `out`; inputs of other types are converted first, and so is the result.
template <typename Loop>
struct TypedLoop {
  Loop loop = nullptr;  // null: no such kernel
  DType in = DType::kInvalid;
  DType out = DType::kInvalid;
};

// By the type of input 0.
using FindUnary = TypedLoop<UnaryLoop> (*)(DType dtype);
using FindBinary = TypedLoop<BinaryLoop> (*)(DType dtype);

KernelFactory plain_unary_kernel(FindUnary find);
// Inputs 0 and 1 are broadcast against each other.
KernelFactory plain_binary_kernel(FindBinary find);

// typed_unary<float>([](float x) { return ...; }): the lambda must capture nothing.
template <typename In, typename Out = In, typename F>
TypedLoop<UnaryLoop> typed_unary(F f) {
  return {internal::plain_unary<In, Out>(f), dtype_of<In>(), dtype_of<Out>()};
}
template <typename In, typename Out = In, typename F>
TypedLoop<BinaryLoop> typed_binary(F f) {
  return {internal::plain_binary<In, Out>(f), dtype_of<In>(), dtype_of<Out>()};
}

// One generic lambda for all floating types: half and bfloat16 go through float.
template <typename F>
TypedLoop<UnaryLoop> unary_of_floats(DType dtype, F f) {
  return dtype == DType::kDouble ? typed_unary<double>(f) : typed_unary<float>(f);
}
template <typename F>
TypedLoop<BinaryLoop> binary_of_floats(DType dtype, F f) {
  return dtype == DType::kDouble ? typed_binary<double>(f) : typed_binary<float>(f);
}

}  // namespace tutti::cpu

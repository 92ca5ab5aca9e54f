// Converting numbers from one element type to another, and computing small types in wider ones.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// `n` elements; the ranges must not overlap unless they are the same and the sizes equal. Floats become integers by
// dropping the fraction; what does not fit becomes the smallest int32 (int64 on the way to uint32 and 64 bits) before
// it is cut to size, as the processor does.
using ConvertFn = void (*)(const void* from, void* to, std::int64_t n);

// Null when either type is not a plain number or bool.
ConvertFn find_convert(DType from, DType to);

// The type in which arithmetic on `dtype` is done: half and bfloat16 in float, integers under 32 bits in int32,
// uint32 in int64, complex64 in complex128; the others in themselves. Cutting the result to size gives the
// same bits as arithmetic in the small type.
DType compute_dtype(DType dtype);

// `in` as elements of `wide`: itself, or converted in step memory.
Result<Tensor> widened(KernelContext& context, const Tensor& in, DType wide);
// Room for results of `out`'s shape in `wide`: `out` itself, or step memory that `narrow_into` converts.
Result<Tensor> wide_output(KernelContext& context, const Tensor& out, DType wide);
void narrow_into(const Tensor& wide, Tensor& out);

// Cast.
KernelFactory cast_kernel();

}  // namespace tutti::cpu

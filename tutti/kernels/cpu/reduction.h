// Sum, Mean, Max and their kin over any axes; ArgMax; L2Loss.
#pragma once

#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

enum class ReduceOp { kSum, kMean, kProd, kMin, kMax, kAll, kAny, kEuclideanNorm };

// Inputs: tensor, axes; attribute keep_dims.
KernelFactory reduction_kernel(ReduceOp op);
// Inputs: tensor, dimension. The first index wins ties.
KernelFactory arg_reduction_kernel(bool maximum);
// _ProdGrad: inputs tensor, axes, dy (with reduced dimensions kept as ones).
KernelFactory prod_grad_kernel();
// Half the sum of squares.
KernelFactory l2_loss_kernel();
// BiasAddGrad: the sum over all dimensions but the channels', attribute data_format.
KernelFactory bias_add_grad_kernel();

namespace internal {
// *out = in[0] op ... op in[n-1], n >= 1.
using ReduceLoop = void (*)(const void* in, std::int64_t n, void* out);
// out[c] = in[0][c] op ... op in[rows-1][c], rows >= 1.
using ColumnLoop = void (*)(const void* in, std::int64_t rows, std::int64_t columns, void* out);

enum class ReduceKind { kAdd, kMultiply, kMinimum, kMaximum };
struct ReduceLoops {
  ReduceLoop row = nullptr;
  ColumnLoop columns = nullptr;
};
// For float, double, int32, int64.
ReduceLoops find_simd_reduce(ReduceKind kind, DType dtype);
// Sum of squares of float or double.
ReduceLoop find_simd_sum_squares(DType dtype);
}  // namespace internal

}  // namespace tutti::cpu

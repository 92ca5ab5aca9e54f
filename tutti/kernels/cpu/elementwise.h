// Element-wise arithmetic: one loop per op and compute type, shared by every dtype, shape and kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/core/dtype.h"
#include "tutti/core/team.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

enum class UnaryOp {
  kNeg,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kAbs,
  kSign,
  kFloor,
  kCeil,
  kRound,
  kSin,
  kCos,
  kTan,
  kTanh,
  kSigmoid,
  kErf,
  kConj,
  kLogicalNot,
  kIsNan,
  kIsInf,
  kIsFinite,
  kRelu,
  kRelu6,
  kElu,
  kSelu,
  kLeakyRelu,
  kSoftplus,
  kSoftsign,
};

enum class BinaryOp {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kFloorMod,
  kTruncateDiv,
  kTruncateMod,
  kDivNoNan,
  kMulNoNan,
  kPow,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kXlogy,
  kXdivy,
  kSigmoidGrad,
  kTanhGrad,
  kSqrtGrad,
  kRsqrtGrad,
  kReciprocalGrad,  // (y, dy)
  kReluGrad,
  kRelu6Grad,
  kEluGrad,
  kSeluGrad,
  kLeakyReluGrad,
  kSoftplusGrad,
  kSoftsignGrad,  // (dy, x or y)
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kLogicalAnd,
  kLogicalOr,
};

// out[i] = op(in[i]); out may be in. `param` is LeakyRelu's slope.
using UnaryLoop = void (*)(const void* in, void* out, std::int64_t n, float param);
// out[i] = op(a[i * a_step], b[i * b_step]), steps 0 or 1; out may be an operand whose step is 1.
using BinaryLoop = void (*)(const void* a, const void* b, void* out, std::int64_t n, int a_step, int b_step,
                            float param);

// A loop for one dtype: directly, or block by block through a wider compute type.
class UnaryFunction {
 public:
  // Empty (false) when the op does not take the dtype. `out`: kBool for predicates, else the same type.
  static UnaryFunction find(UnaryOp op, DType dtype);
  // Of loops that are not in the enumeration: for float, which the 16-bit floats go through, and for double.
  static UnaryFunction of(UnaryLoop for_float, UnaryLoop for_double, DType dtype);
  explicit operator bool() const { return loop_ != nullptr; }
  void operator()(const void* in, void* out, std::int64_t n, float param = 0) const;

 private:
  UnaryLoop loop_ = nullptr;
  ConvertFn widen_ = nullptr;   // null: no conversion
  ConvertFn narrow_ = nullptr;  // null: the loop writes the output itself
  std::int64_t in_size_ = 0;
  std::int64_t out_size_ = 0;
};

class BinaryFunction {
 public:
  static BinaryFunction find(BinaryOp op, DType dtype);
  explicit operator bool() const { return loop_ != nullptr; }
  void operator()(const void* a, const void* b, void* out, std::int64_t n, int a_step, int b_step,
                  float param = 0) const;
  std::int64_t in_size() const { return in_size_; }
  std::int64_t out_size() const { return out_size_; }

 private:
  BinaryLoop loop_ = nullptr;
  ConvertFn widen_ = nullptr;
  ConvertFn narrow_ = nullptr;
  std::int64_t in_size_ = 0;
  std::int64_t out_size_ = 0;
};

// Runs `function` over whole tensors of one shape. REQUIRES: element counts are equal.
void run_elementwise(const BinaryFunction& function, const Tensor& a, const Tensor& b, Tensor& out, Team& team,
                     float param = 0);

// Of the op that a fused op applies at its end; none for another name.
std::optional<UnaryOp> activation_named(std::string_view op);

// Kernels. Broadcasting; inputs 0 and 1, output 0. Attribute "alpha" (float), where there is one, is the parameter;
// "incompatible_shape_error" = false makes shapes that do not broadcast an answer instead of an error.
KernelFactory unary_kernel(UnaryOp op);
KernelFactory unary_kernel(UnaryLoop for_float, UnaryLoop for_double);
KernelFactory binary_kernel(BinaryOp op);
// Binary without broadcasting: both shapes must be equal (gradients of activations).
KernelFactory same_shape_kernel(BinaryOp op);
// Sum of N tensors of one shape.
KernelFactory add_n_kernel();

namespace internal {
// The loops of each source file; null when it has none for this op and compute type.
UnaryLoop find_simd_unary(UnaryOp op, DType dtype);
UnaryLoop find_plain_unary(UnaryOp op, DType dtype);
BinaryLoop find_simd_binary(BinaryOp op, DType dtype);
BinaryLoop find_plain_binary(BinaryOp op, DType dtype);
BinaryLoop find_comparison(BinaryOp op, DType dtype);
}  // namespace internal

}  // namespace tutti::cpu

// Loops without vector code: functions that the standard library has, integer division, uint64, complex, bool, strings.
#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/internal/plain_loop.h"

namespace tutti::cpu::internal {
namespace {

using Complex = std::complex<double>;

// --- Integers. The kernel refuses zero divisors and negative exponents before it gets here. ---

// The quotient of the smallest number and -1 does not fit; it wraps.
template <typename T>
T divide(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return a / b;
}

template <typename T>
T remainder(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}

template <typename T>
T floor_divide(T a, T b) {
  T quotient = divide(a, b);
  if constexpr (std::is_signed_v<T>) {
    if (remainder(a, b) != 0 && (a < 0) != (b < 0)) --quotient;
  }
  return quotient;
}

template <typename T>
T floor_remainder(T a, T b) {
  T rest = remainder(a, b);
  if constexpr (std::is_signed_v<T>) {
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  }
  return rest;
}

template <typename T>
T integer_power(T base, T exponent) {
  using Unsigned = std::make_unsigned_t<T>;
  Unsigned result = 1;
  Unsigned factor = static_cast<Unsigned>(base);
  for (; exponent > 0; exponent = static_cast<T>(exponent >> 1)) {
    if (exponent & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

template <typename T>
BinaryLoop integer_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::kDiv:
    case BinaryOp::kTruncateDiv:
      return plain_binary<T>([](T a, T b) { return divide(a, b); });
    case BinaryOp::kTruncateMod:
      return plain_binary<T>([](T a, T b) { return remainder(a, b); });
    case BinaryOp::kFloorDiv:
      return plain_binary<T>([](T a, T b) { return floor_divide(a, b); });
    case BinaryOp::kFloorMod:
      return plain_binary<T>([](T a, T b) { return floor_remainder(a, b); });
    case BinaryOp::kPow:
      return plain_binary<T>([](T a, T b) { return integer_power(a, b); });
    default:
      return nullptr;
  }
}

BinaryLoop uint64_binary(BinaryOp op) {
  using T = std::uint64_t;
  switch (op) {
    case BinaryOp::kAdd:
      return plain_binary<T>([](T a, T b) { return a + b; });
    case BinaryOp::kSub:
      return plain_binary<T>([](T a, T b) { return a - b; });
    case BinaryOp::kMul:
      return plain_binary<T>([](T a, T b) { return a * b; });
    case BinaryOp::kMaximum:
      return plain_binary<T>([](T a, T b) { return a < b ? b : a; });
    case BinaryOp::kMinimum:
      return plain_binary<T>([](T a, T b) { return b < a ? b : a; });
    case BinaryOp::kReluGrad:
      return plain_binary<T>([](T dy, T x) { return x > 0 ? dy : T{0}; });
    case BinaryOp::kRelu6Grad:
      return plain_binary<T>([](T dy, T x) { return x > 0 && x < 6 ? dy : T{0}; });
    default:
      return integer_binary<T>(op);
  }
}

template <typename T>
UnaryLoop integer_unary(UnaryOp op) {
  switch (op) {
    case UnaryOp::kReciprocal:
      return plain_unary<T>([](T x) { return x == 1 || x == T(-1) ? x : T{0}; });
    case UnaryOp::kRound:
      return plain_unary<T>([](T x) { return x; });
    default:
      return nullptr;
  }
}

UnaryLoop uint64_unary(UnaryOp op) {
  using T = std::uint64_t;
  switch (op) {
    case UnaryOp::kSquare:
      return plain_unary<T>([](T x) { return x * x; });
    case UnaryOp::kRelu:
      return plain_unary<T>([](T x) { return x; });
    case UnaryOp::kRelu6:
      return plain_unary<T>([](T x) { return x < 6 ? x : T{6}; });
    default:
      return nullptr;
  }
}

// --- Real numbers. ---

template <typename T>
T floor_modulo(T a, T b) {
  T rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest;
}

template <typename T>
BinaryLoop real_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::kPow:
      return plain_binary<T>([](T a, T b) { return std::pow(a, b); });
    case BinaryOp::kFloorMod:
      return plain_binary<T>([](T a, T b) { return floor_modulo(a, b); });
    case BinaryOp::kTruncateMod:
      return plain_binary<T>([](T a, T b) { return std::fmod(a, b); });
    case BinaryOp::kTruncateDiv:
      return plain_binary<T>([](T a, T b) { return std::trunc(a / b); });
    default:
      return nullptr;
  }
}

template <typename T>
UnaryLoop real_unary(UnaryOp op) {
  switch (op) {
    case UnaryOp::kSin:
      return plain_unary<T>([](T x) { return std::sin(x); });
    case UnaryOp::kCos:
      return plain_unary<T>([](T x) { return std::cos(x); });
    case UnaryOp::kTan:
      return plain_unary<T>([](T x) { return std::tan(x); });
    case UnaryOp::kErf:
      return plain_unary<T>([](T x) { return std::erf(x); });
    case UnaryOp::kIsNan:
      return plain_unary<T, bool>([](T x) { return std::isnan(x); });
    case UnaryOp::kIsInf:
      return plain_unary<T, bool>([](T x) { return std::isinf(x); });
    case UnaryOp::kIsFinite:
      return plain_unary<T, bool>([](T x) { return std::isfinite(x); });
    default:
      return nullptr;
  }
}

// --- Complex numbers. ---

// A complex gradient multiplies by the conjugate of the derivative. As in TensorFlow, SigmoidGrad and TanhGrad are
// given y conjugated already, and the others conjugate it.
BinaryLoop complex_gradient(BinaryOp op) {
  using C = Complex;
  switch (op) {
    case BinaryOp::kSigmoidGrad:
      return plain_binary<C>([](C y, C dy) { return dy * y * (1.0 - y); });
    case BinaryOp::kTanhGrad:
      return plain_binary<C>([](C y, C dy) { return dy * (1.0 - y * y); });
    case BinaryOp::kSqrtGrad:
      return plain_binary<C>([](C y, C dy) { return 0.5 * dy / std::conj(y); });
    case BinaryOp::kRsqrtGrad:
      return plain_binary<C>([](C y, C dy) { return -0.5 * dy * std::conj(y) * std::conj(y) * std::conj(y); });
    case BinaryOp::kReciprocalGrad:
      return plain_binary<C>([](C y, C dy) { return -dy * std::conj(y) * std::conj(y); });
    default:
      return nullptr;
  }
}

BinaryLoop complex_binary(BinaryOp op) {
  using C = Complex;
  switch (op) {
    case BinaryOp::kAdd:
      return plain_binary<C>([](C a, C b) { return a + b; });
    case BinaryOp::kSub:
      return plain_binary<C>([](C a, C b) { return a - b; });
    case BinaryOp::kMul:
      return plain_binary<C>([](C a, C b) { return a * b; });
    case BinaryOp::kDiv:
      return plain_binary<C>([](C a, C b) { return a / b; });
    case BinaryOp::kDivNoNan:
      return plain_binary<C>([](C a, C b) { return b == 0.0 ? C{} : a / b; });
    case BinaryOp::kMulNoNan:
      return plain_binary<C>([](C a, C b) { return b == 0.0 ? C{} : a * b; });
    case BinaryOp::kPow:
      return plain_binary<C>([](C a, C b) { return b == 0.0 ? C{1.0} : std::pow(a, b); });
    case BinaryOp::kSquaredDifference:
      return plain_binary<C>([](C a, C b) { return C{std::norm(a - b)}; });
    case BinaryOp::kXlogy:
      return plain_binary<C>([](C a, C b) { return a == 0.0 ? C{} : a * std::log(b); });
    case BinaryOp::kXdivy:
      return plain_binary<C>([](C a, C b) { return a == 0.0 ? C{} : a / b; });
    default:
      return complex_gradient(op);
  }
}

UnaryLoop complex_unary(UnaryOp op) {
  using C = Complex;
  switch (op) {
    case UnaryOp::kNeg:
      return plain_unary<C>([](C x) { return -x; });
    case UnaryOp::kSquare:
      return plain_unary<C>([](C x) { return x * x; });
    case UnaryOp::kSqrt:
      return plain_unary<C>([](C x) { return std::sqrt(x); });
    case UnaryOp::kRsqrt:
      return plain_unary<C>([](C x) { return 1.0 / std::sqrt(x); });
    case UnaryOp::kReciprocal:
      return plain_unary<C>([](C x) { return 1.0 / x; });
    case UnaryOp::kExp:
      return plain_unary<C>([](C x) { return std::exp(x); });
    case UnaryOp::kExpm1:
      return plain_unary<C>([](C x) { return std::exp(x) - 1.0; });
    case UnaryOp::kLog:
      return plain_unary<C>([](C x) { return std::log(x); });
    case UnaryOp::kLog1p:
      return plain_unary<C>([](C x) { return std::log(1.0 + x); });
    case UnaryOp::kSign:
      return plain_unary<C>([](C x) { return x == 0.0 ? C{} : x / std::abs(x); });
    case UnaryOp::kRound:
      return plain_unary<C>([](C x) { return C{std::nearbyint(x.real()), std::nearbyint(x.imag())}; });
    case UnaryOp::kSin:
      return plain_unary<C>([](C x) { return std::sin(x); });
    case UnaryOp::kCos:
      return plain_unary<C>([](C x) { return std::cos(x); });
    case UnaryOp::kTan:
      return plain_unary<C>([](C x) { return std::tan(x); });
    case UnaryOp::kTanh:
      return plain_unary<C>([](C x) { return std::tanh(x); });
    case UnaryOp::kSigmoid:
      return plain_unary<C>([](C x) { return 1.0 / (1.0 + std::exp(-x)); });
    case UnaryOp::kConj:
      return plain_unary<C>([](C x) { return std::conj(x); });
    default:
      return nullptr;
  }
}

}  // namespace

UnaryLoop find_plain_unary(UnaryOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return real_unary<float>(op);
    case DType::kDouble:
      return real_unary<double>(op);
    case DType::kInt32:
      return integer_unary<std::int32_t>(op);
    case DType::kInt64:
      return integer_unary<std::int64_t>(op);
    case DType::kUint64:
      return uint64_unary(op);
    case DType::kComplex128:
      return complex_unary(op);
    case DType::kBool:
      return op == UnaryOp::kLogicalNot ? plain_unary<bool>([](bool x) { return !x; }) : nullptr;
    default:
      return nullptr;
  }
}

namespace {

void join_strings(const void* a, const void* b, void* out, std::int64_t n, int a_step, int b_step, float) {
  const auto* left = static_cast<const std::string*>(a);
  const auto* right = static_cast<const std::string*>(b);
  for (std::int64_t i = 0; i < n; ++i) static_cast<std::string*>(out)[i] = left[i * a_step] + right[i * b_step];
}

}  // namespace

BinaryLoop find_plain_binary(BinaryOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return real_binary<float>(op);
    case DType::kDouble:
      return real_binary<double>(op);
    case DType::kInt32:
      return integer_binary<std::int32_t>(op);
    case DType::kInt64:
      return integer_binary<std::int64_t>(op);
    case DType::kUint64:
      return uint64_binary(op);
    case DType::kComplex128:
      return complex_binary(op);
    case DType::kBool:
      if (op == BinaryOp::kLogicalAnd) return plain_binary<bool>([](bool a, bool b) { return a && b; });
      if (op == BinaryOp::kLogicalOr) return plain_binary<bool>([](bool a, bool b) { return a || b; });
      return nullptr;
    case DType::kString:
      return op == BinaryOp::kAdd ? join_strings : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace tutti::cpu::internal

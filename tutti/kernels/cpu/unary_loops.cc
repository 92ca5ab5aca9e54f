// Vector loops of the unary ops, compiled once per instruction set.
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/unary_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "tutti/kernels/cpu/internal/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

#define TUTTI_UNARY(name, expression)                                                  \
  struct name {                                                                        \
    template <class D, class V>                                                        \
    static HWY_INLINE V run([[maybe_unused]] D d, V x, [[maybe_unused]] float param) { \
      return expression;                                                               \
    }                                                                                  \
  };

TUTTI_UNARY(Neg, hn::Neg(x))
TUTTI_UNARY(Square, hn::Mul(x, x))
TUTTI_UNARY(Sqrt, hn::Sqrt(x))
TUTTI_UNARY(Rsqrt, hn::Div(constant(d, 1), hn::Sqrt(x)))
TUTTI_UNARY(Reciprocal, hn::Div(constant(d, 1), x))
TUTTI_UNARY(Exp, exp(d, x))
TUTTI_UNARY(Expm1, expm1(d, x))
TUTTI_UNARY(Log, log(d, x))
TUTTI_UNARY(Log1p, log1p(d, x))
TUTTI_UNARY(Abs, hn::Abs(x))
// Zeros and NaN are their own sign.
TUTTI_UNARY(Sign, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1),
                                 hn::IfThenElse(hn::Lt(x, hn::Zero(d)), constant(d, -1), x)))
TUTTI_UNARY(Floor, hn::Floor(x))
TUTTI_UNARY(Ceil, hn::Ceil(x))
TUTTI_UNARY(Round, hn::Round(x))
TUTTI_UNARY(Tanh, hn::Tanh(d, x))
TUTTI_UNARY(Sigmoid, sigmoid(d, x))
// Comparisons are false for NaN, which therefore passes.
TUTTI_UNARY(Relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
TUTTI_UNARY(Relu6,
            hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::IfThenElse(hn::Gt(x, constant(d, 6)), constant(d, 6), x)))
TUTTI_UNARY(Elu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), expm1(d, x), x))
TUTTI_UNARY(Selu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(constant(d, 1.7580993408473768599), expm1(d, x)),
                                 hn::Mul(constant(d, 1.0507009873554804934), x)))
TUTTI_UNARY(LeakyRelu, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(constant(d, param), x)))
// log(1 + e^x), which is x itself where e^x drowns the 1, and e^x where the 1 drowns it.
TUTTI_UNARY(Softplus, hn::IfThenElse(hn::Gt(x, constant(d, sizeof(hn::TFromD<D>) == 4 ? 13.9424 : 34.0437)), x,
                                     log1p(d, exp(d, x))))
TUTTI_UNARY(Softsign, hn::Div(x, hn::Add(constant(d, 1), hn::Abs(x))))
#undef TUTTI_UNARY

template <class Op, typename T>
void run_unary(const void* from, void* to, std::int64_t n, float param) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Op::run(d, hn::LoadU(d, in + i), param), d, out + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  hn::BlendedStore(Op::run(d, hn::MaskedLoad(rest, d, in + i), param), rest, d, out + i);
}

template <typename T>
UnaryLoop find_float(UnaryOp op) {
  switch (op) {
    case UnaryOp::kSqrt:
      return &run_unary<Sqrt, T>;
    case UnaryOp::kRsqrt:
      return &run_unary<Rsqrt, T>;
    case UnaryOp::kReciprocal:
      return &run_unary<Reciprocal, T>;
    case UnaryOp::kExp:
      return &run_unary<Exp, T>;
    case UnaryOp::kExpm1:
      return &run_unary<Expm1, T>;
    case UnaryOp::kLog:
      return &run_unary<Log, T>;
    case UnaryOp::kLog1p:
      return &run_unary<Log1p, T>;
    case UnaryOp::kFloor:
      return &run_unary<Floor, T>;
    case UnaryOp::kCeil:
      return &run_unary<Ceil, T>;
    case UnaryOp::kRound:
      return &run_unary<Round, T>;
    case UnaryOp::kTanh:
      return &run_unary<Tanh, T>;
    case UnaryOp::kSigmoid:
      return &run_unary<Sigmoid, T>;
    case UnaryOp::kElu:
      return &run_unary<Elu, T>;
    case UnaryOp::kSelu:
      return &run_unary<Selu, T>;
    case UnaryOp::kLeakyRelu:
      return &run_unary<LeakyRelu, T>;
    case UnaryOp::kSoftplus:
      return &run_unary<Softplus, T>;
    case UnaryOp::kSoftsign:
      return &run_unary<Softsign, T>;
    default:
      return nullptr;
  }
}

template <typename T>
UnaryLoop find_any(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNeg:
      return &run_unary<Neg, T>;
    case UnaryOp::kSquare:
      return &run_unary<Square, T>;
    case UnaryOp::kAbs:
      return &run_unary<Abs, T>;
    case UnaryOp::kSign:
      return &run_unary<Sign, T>;
    case UnaryOp::kRelu:
      return &run_unary<Relu, T>;
    case UnaryOp::kRelu6:
      return &run_unary<Relu6, T>;
    default:
      return nullptr;
  }
}

}  // namespace

UnaryLoop find_unary(UnaryOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat: {
      UnaryLoop loop = find_any<float>(op);
      return loop != nullptr ? loop : find_float<float>(op);
    }
    case DType::kDouble: {
      UnaryLoop loop = find_any<double>(op);
      return loop != nullptr ? loop : find_float<double>(op);
    }
    case DType::kInt32:
      return find_any<std::int32_t>(op);
    case DType::kInt64:
      return find_any<std::int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_unary);

UnaryLoop internal::find_simd_unary(UnaryOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(find_unary)(op, dtype); }

}  // namespace tutti::cpu
#endif

// Vector loops of the binary ops, compiled once per instruction set.
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/binary_loops.cc"
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

// When one is NaN, these give the NaN. Highway's own give the second operand or the number, as the target has it.
template <class D, class V>
HWY_INLINE V larger(D, V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Max(a, b);
  }
}
template <class D, class V>
HWY_INLINE V smaller(D, V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Min(a, b);
  }
}

template <class D, class V>
HWY_INLINE V square(D, V x) {
  return hn::Mul(x, x);
}

#define TUTTI_BINARY(name, expression)                                                      \
  struct name {                                                                             \
    template <class D, class V>                                                             \
    static HWY_INLINE V run([[maybe_unused]] D d, V a, V b, [[maybe_unused]] float param) { \
      return expression;                                                                    \
    }                                                                                       \
  };

TUTTI_BINARY(Add, hn::Add(a, b))
TUTTI_BINARY(Sub, hn::Sub(a, b))
TUTTI_BINARY(Mul, hn::Mul(a, b))
TUTTI_BINARY(Div, hn::Div(a, b))
TUTTI_BINARY(FloorDiv, hn::Floor(hn::Div(a, b)))
// A comparison with NaN is false: so the zero is asked for, not its opposite.
TUTTI_BINARY(DivNoNan, hn::IfThenZeroElse(hn::Eq(b, hn::Zero(d)), hn::Div(a, b)))
TUTTI_BINARY(MulNoNan, hn::IfThenZeroElse(hn::Eq(b, hn::Zero(d)), hn::Mul(a, b)))
TUTTI_BINARY(Maximum, larger(d, a, b))
TUTTI_BINARY(Minimum, smaller(d, a, b))
TUTTI_BINARY(SquaredDifference, square(d, hn::Sub(a, b)))
TUTTI_BINARY(Xlogy, hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Mul(a, log(d, b))))
TUTTI_BINARY(Xdivy, hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Div(a, b)))
// a is the function's value, b the incoming gradient.
TUTTI_BINARY(SigmoidGrad, hn::Mul(hn::Mul(b, a), hn::Sub(constant(d, 1), a)))
TUTTI_BINARY(TanhGrad, hn::Mul(b, hn::Sub(constant(d, 1), hn::Mul(a, a))))
TUTTI_BINARY(SqrtGrad, hn::Div(hn::Mul(constant(d, 0.5), b), a))
TUTTI_BINARY(RsqrtGrad, hn::Mul(hn::Mul(constant(d, -0.5), hn::Mul(b, a)), hn::Mul(a, a)))
TUTTI_BINARY(ReciprocalGrad, hn::Mul(hn::Neg(b), hn::Mul(a, a)))
// a is the incoming gradient, b the features or the activations.
TUTTI_BINARY(ReluGrad, hn::IfThenElseZero(hn::Gt(b, hn::Zero(d)), a))
TUTTI_BINARY(Relu6Grad, hn::IfThenElseZero(hn::And(hn::Gt(b, hn::Zero(d)), hn::Lt(b, constant(d, 6))), a))
TUTTI_BINARY(EluGrad, hn::IfThenElse(hn::Lt(b, hn::Zero(d)), hn::Mul(a, hn::Add(b, constant(d, 1))), a))
TUTTI_BINARY(SeluGrad, hn::Mul(a, hn::IfThenElse(hn::Lt(b, hn::Zero(d)), hn::Add(b, constant(d, 1.7580993408473768599)),
                                                 constant(d, 1.0507009873554804934))))
TUTTI_BINARY(LeakyReluGrad, hn::IfThenElse(hn::Gt(b, hn::Zero(d)), a, hn::Mul(constant(d, param), a)))
TUTTI_BINARY(SoftplusGrad, hn::Div(a, hn::Add(exp(d, hn::Neg(b)), constant(d, 1))))
TUTTI_BINARY(SoftsignGrad, hn::Div(a, square(d, hn::Add(constant(d, 1), hn::Abs(b)))))
#undef TUTTI_BINARY

// A repeated operand is spread over one vector, from which every iteration loads again: one loop for all cases.
template <class Op, typename T>
void run_binary(const void* from_a, const void* from_b, void* to, std::int64_t n, int a_step, int b_step, float param) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* a = static_cast<const T*>(from_a);
  const T* b = static_cast<const T*>(from_b);
  T* out = static_cast<T*>(to);
  HWY_ALIGN T repeated_a[HWY_LANES(T)];
  HWY_ALIGN T repeated_b[HWY_LANES(T)];
  if (n <= 0) return;
  if (a_step == 0) {
    hn::Store(hn::Set(d, *a), d, repeated_a);
    a = repeated_a;
  }
  if (b_step == 0) {
    hn::Store(hn::Set(d, *b), d, repeated_b);
    b = repeated_b;
  }
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Op::run(d, hn::LoadU(d, a), hn::LoadU(d, b), param), d, out + i);
    a += lanes * a_step;
    b += lanes * b_step;
  }
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  hn::BlendedStore(Op::run(d, hn::MaskedLoad(rest, d, a), hn::MaskedLoad(rest, d, b), param), rest, d, out + i);
}

template <typename T>
BinaryLoop find_float(BinaryOp op) {
  switch (op) {
    case BinaryOp::kDiv:
      return &run_binary<Div, T>;
    case BinaryOp::kFloorDiv:
      return &run_binary<FloorDiv, T>;
    case BinaryOp::kDivNoNan:
      return &run_binary<DivNoNan, T>;
    case BinaryOp::kMulNoNan:
      return &run_binary<MulNoNan, T>;
    case BinaryOp::kXlogy:
      return &run_binary<Xlogy, T>;
    case BinaryOp::kXdivy:
      return &run_binary<Xdivy, T>;
    case BinaryOp::kSigmoidGrad:
      return &run_binary<SigmoidGrad, T>;
    case BinaryOp::kTanhGrad:
      return &run_binary<TanhGrad, T>;
    case BinaryOp::kSqrtGrad:
      return &run_binary<SqrtGrad, T>;
    case BinaryOp::kRsqrtGrad:
      return &run_binary<RsqrtGrad, T>;
    case BinaryOp::kReciprocalGrad:
      return &run_binary<ReciprocalGrad, T>;
    case BinaryOp::kEluGrad:
      return &run_binary<EluGrad, T>;
    case BinaryOp::kSeluGrad:
      return &run_binary<SeluGrad, T>;
    case BinaryOp::kLeakyReluGrad:
      return &run_binary<LeakyReluGrad, T>;
    case BinaryOp::kSoftplusGrad:
      return &run_binary<SoftplusGrad, T>;
    case BinaryOp::kSoftsignGrad:
      return &run_binary<SoftsignGrad, T>;
    default:
      return nullptr;
  }
}

template <typename T>
BinaryLoop find_any(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return &run_binary<Add, T>;
    case BinaryOp::kSub:
      return &run_binary<Sub, T>;
    case BinaryOp::kMul:
      return &run_binary<Mul, T>;
    case BinaryOp::kMaximum:
      return &run_binary<Maximum, T>;
    case BinaryOp::kMinimum:
      return &run_binary<Minimum, T>;
    case BinaryOp::kSquaredDifference:
      return &run_binary<SquaredDifference, T>;
    case BinaryOp::kReluGrad:
      return &run_binary<ReluGrad, T>;
    case BinaryOp::kRelu6Grad:
      return &run_binary<Relu6Grad, T>;
    default:
      return nullptr;
  }
}

}  // namespace

BinaryLoop find_binary(BinaryOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat: {
      BinaryLoop loop = find_any<float>(op);
      return loop != nullptr ? loop : find_float<float>(op);
    }
    case DType::kDouble: {
      BinaryLoop loop = find_any<double>(op);
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
HWY_EXPORT(find_binary);

BinaryLoop internal::find_simd_binary(BinaryOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(find_binary)(op, dtype); }

}  // namespace tutti::cpu
#endif

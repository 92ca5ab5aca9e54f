// Vector loops of the optimisers, compiled once per instruction set.
#include "tutti/kernels/cpu/optimizer_update.h"

#include <algorithm>
#include <cmath>

#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/optimizer_update.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "tutti/kernels/cpu/internal/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

// Each rule changes the vectors s[0] (the variable), s[1]... (its slots) given the gradient g and constants k.

struct GradientDescent {
  static constexpr int kStates = 1;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    s[0] = hn::Sub(s[0], hn::Mul(hn::Set(d, k[0]), g));
  }
};

// sign(x) max(|x| - rate l1, 0) / (1 + rate l2): where a step to x ends under penalties l1 |x| and l2 x^2 / 2. What is
// not a number stays so.
template <class D, class V>
HWY_INLINE V shrink(D d, V x, V rate, V l1, V l2) {
  const V size = hn::NegMulAdd(rate, l1, hn::Abs(x));
  const V gone = hn::Or(hn::VecFromMask(d, hn::Lt(size, hn::Zero(d))), hn::VecFromMask(d, hn::Eq(x, hn::Zero(d))));
  const V kept = hn::IfThenZeroElse(hn::MaskFromVec(gone), hn::CopySign(size, x));
  return hn::Div(kept, hn::MulAdd(rate, l2, hn::Set(d, 1)));
}

struct ProximalDescent {
  static constexpr int kStates = 1;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V rate = hn::Set(d, k[0]);
    s[0] = shrink(d, hn::NegMulAdd(rate, g, s[0]), rate, hn::Set(d, k[1]), hn::Set(d, k[2]));
  }
};

struct ProximalAdagrad {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    s[1] = hn::MulAdd(g, g, s[1]);
    const V rate = hn::Div(hn::Set(d, k[0]), hn::Sqrt(s[1]));
    s[0] = shrink(d, hn::NegMulAdd(rate, g, s[0]), rate, hn::Set(d, k[1]), hn::Set(d, k[2]));
  }
};

template <bool kNesterov>
struct Momentum {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V lr = hn::Set(d, k[0]), momentum = hn::Set(d, k[1]);
    s[1] = hn::MulAdd(s[1], momentum, g);
    const V direction = kNesterov ? hn::MulAdd(s[1], momentum, g) : s[1];
    s[0] = hn::Sub(s[0], hn::Mul(lr, direction));
  }
};

template <bool kNesterov>
struct KerasMomentum {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V step = hn::Mul(hn::Set(d, k[0]), g), momentum = hn::Set(d, k[1]);
    s[1] = hn::Sub(hn::Mul(s[1], momentum), step);
    s[0] = hn::Add(s[0], kNesterov ? hn::Sub(hn::Mul(s[1], momentum), step) : s[1]);
  }
};

template <bool kNesterov>
struct Adam {
  static constexpr int kStates = 3;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V alpha = hn::Set(d, k[0]), rest1 = hn::Set(d, k[1]), rest2 = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[1] = hn::MulAdd(hn::Sub(g, s[1]), rest1, s[1]);
    s[2] = hn::MulAdd(hn::Sub(hn::Mul(g, g), s[2]), rest2, s[2]);
    const V m = kNesterov ? hn::MulAdd(g, rest1, hn::Mul(hn::Set(d, k[4]), s[1])) : s[1];
    s[0] = hn::Sub(s[0], hn::Div(hn::Mul(m, alpha), hn::Add(hn::Sqrt(s[2]), epsilon)));
  }
};

struct AdamAmsgrad {
  static constexpr int kStates = 4;  // var, m, v, vhat
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V alpha = hn::Set(d, k[0]), rest1 = hn::Set(d, k[1]), rest2 = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[1] = hn::MulAdd(hn::Sub(g, s[1]), rest1, s[1]);
    s[2] = hn::MulAdd(hn::Sub(hn::Mul(g, g), s[2]), rest2, s[2]);
    s[3] = hn::Max(s[3], s[2]);
    s[0] = hn::Sub(s[0], hn::Div(hn::Mul(s[1], alpha), hn::Add(hn::Sqrt(s[3]), epsilon)));
  }
};

struct AdaMax {
  static constexpr int kStates = 3;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V alpha = hn::Set(d, k[0]), rest1 = hn::Set(d, k[1]), beta2 = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[1] = hn::MulAdd(hn::Sub(g, s[1]), rest1, s[1]);
    s[2] = hn::Max(hn::Mul(beta2, s[2]), hn::Abs(g));
    s[0] = hn::Sub(s[0], hn::Mul(alpha, hn::Div(s[1], hn::Add(s[2], epsilon))));
  }
};

struct RmsProp {
  static constexpr int kStates = 3;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V lr = hn::Set(d, k[0]), rest = hn::Set(d, k[1]), momentum = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[1] = hn::MulAdd(hn::Sub(hn::Mul(g, g), s[1]), rest, s[1]);
    const V step = hn::Div(hn::Mul(g, lr), hn::Sqrt(hn::Add(s[1], epsilon)));
    s[2] = hn::MulAdd(s[2], momentum, step);
    s[0] = hn::Sub(s[0], s[2]);
  }
};

struct CenteredRmsProp {
  static constexpr int kStates = 4;  // var, mg, ms, mom
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V lr = hn::Set(d, k[0]), rest = hn::Set(d, k[1]), momentum = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[2] = hn::MulAdd(hn::Sub(hn::Mul(g, g), s[2]), rest, s[2]);
    s[1] = hn::MulAdd(hn::Sub(g, s[1]), rest, s[1]);
    const V variance = hn::Add(hn::Sub(s[2], hn::Mul(s[1], s[1])), epsilon);
    s[3] = hn::MulAdd(s[3], momentum, hn::Div(hn::Mul(g, lr), hn::Sqrt(variance)));
    s[0] = hn::Sub(s[0], s[3]);
  }
};

struct Adagrad {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V lr = hn::Set(d, k[0]), epsilon = hn::Set(d, k[1]);
    // k[2] is 0 when the accumulator stays as it is.
    if (k[2] != 0) s[1] = hn::MulAdd(g, g, s[1]);
    s[0] = hn::Sub(s[0], hn::Div(hn::Mul(g, lr), hn::Add(hn::Sqrt(s[1]), epsilon)));
  }
};

struct Adadelta {
  static constexpr int kStates = 3;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V lr = hn::Set(d, k[0]), rho = hn::Set(d, k[1]), rest = hn::Set(d, k[2]), epsilon = hn::Set(d, k[3]);
    s[1] = hn::MulAdd(s[1], rho, hn::Mul(hn::Mul(g, g), rest));
    const V step = hn::Mul(hn::Div(hn::Sqrt(hn::Add(s[2], epsilon)), hn::Sqrt(hn::Add(s[1], epsilon))), g);
    s[0] = hn::Sub(s[0], hn::Mul(lr, step));
    s[2] = hn::MulAdd(s[2], rho, hn::Mul(hn::Mul(step, step), rest));
  }
};

template <bool kRoot>
struct Ftrl {
  static constexpr int kStates = 3;  // var, accum, linear
  template <class D, class V>
  static HWY_INLINE V power(D d, V x, hn::TFromD<D> exponent) {
    if constexpr (kRoot) return hn::Sqrt(x);
    if (exponent == 0) return hn::Set(d, 1);
    // Zero stays zero: log gives -infinity.
    return exp(d, hn::Mul(hn::Set(d, exponent), log(d, x)));
  }
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    const V scale = hn::Set(d, k[2]), l1 = hn::Set(d, k[3]), l2 = hn::Set(d, k[4]);
    const V shrunk = hn::MulAdd(hn::Set(d, k[5]), s[0], g);
    const V accum = hn::MulAdd(g, g, s[1]);
    const V root = power(d, accum, k[0]);
    const V growth = hn::Mul(hn::Sub(root, power(d, s[1], k[0])), scale);
    s[2] = hn::Sub(hn::MulAdd(shrunk, hn::Set(d, k[1]), s[2]), hn::Mul(growth, s[0]));
    // l1 may be negative, and then even a sum of zero is larger.
    const V pull = hn::Xor(l1, hn::And(hn::SignBit(d), s[2]));
    const V moved = hn::Div(hn::Sub(pull, s[2]), hn::MulAdd(root, scale, l2));
    s[0] = hn::IfThenElseZero(hn::And(hn::Gt(hn::Abs(s[2]), l1), hn::Ne(s[2], hn::Zero(d))), moved);
    s[1] = accum;
  }
};

// The variable does not enter: it follows from the sums of gradients and of their squares.
struct AdagradDa {
  static constexpr int kStates = 3;  // var, sum, sum of squares
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    s[1] = hn::Add(s[1], g);
    s[2] = hn::MulAdd(g, g, s[2]);
    V pull = s[1];
    if (k[1] > 0) {
      // max(x, 0) that keeps what is not a number.
      const V size = hn::Sub(hn::Abs(s[1]), hn::Set(d, k[1]));
      pull = hn::CopySign(hn::IfThenZeroElse(hn::Lt(size, hn::Zero(d)), size), s[1]);
    }
    const V below = hn::Add(hn::Set(d, k[2]), hn::Sqrt(s[2]));
    s[0] = hn::Div(hn::Mul(hn::Set(d, k[0]), pull), below);
  }
};

// sign(a) sign(b): zero where one of them is, not a number where one is not.
template <class D, class V>
HWY_INLINE V agreement(D d, V a, V b) {
  const auto sign = [&](V x) {
    return hn::IfThenElse(hn::Eq(x, x), hn::IfThenZeroElse(hn::Eq(x, hn::Zero(d)), hn::CopySign(hn::Set(d, 1), x)), x);
  };
  return hn::Mul(sign(a), sign(b));
}

struct AddSign {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    s[1] = hn::MulAdd(s[1], hn::Set(d, k[3]), hn::Mul(g, hn::Set(d, k[4])));
    const V factor = hn::MulAdd(hn::Set(d, k[2]), agreement(d, g, s[1]), hn::Set(d, k[1]));
    s[0] = hn::Sub(s[0], hn::Mul(hn::Mul(hn::Set(d, k[0]), factor), g));
  }
};

struct PowerSign {
  static constexpr int kStates = 2;
  template <class D, class V>
  static HWY_INLINE void run(D d, V* s, V g, const hn::TFromD<D>* k) {
    s[1] = hn::MulAdd(s[1], hn::Set(d, k[3]), hn::Mul(g, hn::Set(d, k[4])));
    const V factor = exp(d, hn::Mul(hn::Set(d, k[1]), agreement(d, g, s[1])));
    s[0] = hn::Sub(s[0], hn::Mul(hn::Mul(hn::Set(d, k[0]), factor), g));
  }
};

template <class Rule, typename T>
void run_update(const void* const* old, void* const* fresh, const void* grad, const void* scalars, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int kStates = Rule::kStates;
  const T* from[kMaxUpdateStates];
  T* to[kMaxUpdateStates];
  for (int j = 0; j < kStates; ++j) {
    from[j] = static_cast<const T*>(old[j]);
    to[j] = static_cast<T*>(fresh[j]);
  }
  const T* g = static_cast<const T*>(grad);
  T k[kMaxUpdateScalars];
  for (int j = 0; j < kMaxUpdateScalars; ++j) k[j] = static_cast<const T*>(scalars)[j];
  V s[kMaxUpdateStates] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    s[0] = hn::LoadU(d, from[0] + i);
    if constexpr (kStates > 1) s[1] = hn::LoadU(d, from[1] + i);
    if constexpr (kStates > 2) s[2] = hn::LoadU(d, from[2] + i);
    if constexpr (kStates > 3) s[3] = hn::LoadU(d, from[3] + i);
    Rule::run(d, s, hn::LoadU(d, g + i), k);
    hn::StoreU(s[0], d, to[0] + i);
    if constexpr (kStates > 1) hn::StoreU(s[1], d, to[1] + i);
    if constexpr (kStates > 2) hn::StoreU(s[2], d, to[2] + i);
    if constexpr (kStates > 3) hn::StoreU(s[3], d, to[3] + i);
  }
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  for (int j = 0; j < kStates; ++j) s[j] = hn::MaskedLoad(rest, d, from[j] + i);
  Rule::run(d, s, hn::MaskedLoad(rest, d, g + i), k);
  for (int j = 0; j < kStates; ++j) hn::BlendedStore(s[j], rest, d, to[j] + i);
}

template <typename T>
UpdateLoop loop_for(UpdateRule rule, bool root) {
  switch (rule) {
    case UpdateRule::kGradientDescent:
      return &run_update<GradientDescent, T>;
    case UpdateRule::kProximalDescent:
      return &run_update<ProximalDescent, T>;
    case UpdateRule::kMomentum:
      return &run_update<Momentum<false>, T>;
    case UpdateRule::kNesterovMomentum:
      return &run_update<Momentum<true>, T>;
    case UpdateRule::kKerasMomentum:
      return &run_update<KerasMomentum<false>, T>;
    case UpdateRule::kKerasNesterov:
      return &run_update<KerasMomentum<true>, T>;
    case UpdateRule::kAdam:
      return &run_update<Adam<false>, T>;
    case UpdateRule::kNesterovAdam:
      return &run_update<Adam<true>, T>;
    case UpdateRule::kAdamAmsgrad:
      return &run_update<AdamAmsgrad, T>;
    case UpdateRule::kAdaMax:
      return &run_update<AdaMax, T>;
    case UpdateRule::kRmsProp:
      return &run_update<RmsProp, T>;
    case UpdateRule::kCenteredRmsProp:
      return &run_update<CenteredRmsProp, T>;
    case UpdateRule::kAdagrad:
      return &run_update<Adagrad, T>;
    case UpdateRule::kProximalAdagrad:
      return &run_update<ProximalAdagrad, T>;
    case UpdateRule::kAdadelta:
      return &run_update<Adadelta, T>;
    case UpdateRule::kFtrl:
      return root ? &run_update<Ftrl<true>, T> : &run_update<Ftrl<false>, T>;
    case UpdateRule::kAdagradDa:
      return &run_update<AdagradDa, T>;
    case UpdateRule::kAddSign:
      return &run_update<AddSign, T>;
    case UpdateRule::kPowerSign:
      return &run_update<PowerSign, T>;
  }
  return nullptr;
}

}  // namespace

UpdateLoop find_loop(UpdateRule rule, DType dtype, bool root) {
  if (dtype == DType::kFloat) return loop_for<float>(rule, root);
  if (dtype == DType::kDouble) return loop_for<double>(rule, root);
  return nullptr;
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_loop);

namespace {

using Complex = std::complex<double>;

// The rules as above, one element at a time. Squares are of the number, not of its size, as in TensorFlow.
template <UpdateRule kRule>
void update_complex(Complex* s, Complex g, const Complex* k) {
  using enum UpdateRule;
  if constexpr (kRule == kGradientDescent) {
    s[0] -= k[0] * g;
  } else if constexpr (kRule == kMomentum || kRule == kNesterovMomentum) {
    s[1] = s[1] * k[1] + g;
    s[0] -= k[0] * (kRule == kNesterovMomentum ? s[1] * k[1] + g : s[1]);
  } else if constexpr (kRule == kKerasMomentum || kRule == kKerasNesterov) {
    s[1] = s[1] * k[1] - k[0] * g;
    s[0] += kRule == kKerasNesterov ? s[1] * k[1] - k[0] * g : s[1];
  } else if constexpr (kRule == kAdam || kRule == kNesterovAdam) {
    s[1] += (g - s[1]) * k[1];
    s[2] += (g * g - s[2]) * k[2];
    const Complex m = kRule == kNesterovAdam ? g * k[1] + k[4] * s[1] : s[1];
    s[0] -= m * k[0] / (std::sqrt(s[2]) + k[3]);
  } else if constexpr (kRule == kRmsProp) {
    s[1] += (g * g - s[1]) * k[1];
    s[2] = s[2] * k[2] + g * k[0] / std::sqrt(s[1] + k[3]);
    s[0] -= s[2];
  } else if constexpr (kRule == kCenteredRmsProp) {
    s[2] += (g * g - s[2]) * k[1];
    s[1] += (g - s[1]) * k[1];
    s[3] = s[3] * k[2] + g * k[0] / std::sqrt(s[2] - s[1] * s[1] + k[3]);
    s[0] -= s[3];
  } else if constexpr (kRule == kAdagrad) {
    if (k[2] != 0.0) s[1] += g * g;
    s[0] -= g * k[0] / (std::sqrt(s[1]) + k[1]);
  } else {
    static_assert(kRule == kAdadelta);
    s[1] = s[1] * k[1] + g * g * k[2];
    const Complex step = std::sqrt(s[2] + k[3]) / std::sqrt(s[1] + k[3]) * g;
    s[0] -= k[0] * step;
    s[2] = s[2] * k[1] + step * step * k[2];
  }
}

template <UpdateRule kRule>
void run_complex(const void* const* old, void* const* fresh, const void* grad, const void* scalars, std::int64_t n) {
  const int states = update_states(kRule);
  for (std::int64_t i = 0; i < n; ++i) {
    Complex s[kMaxUpdateStates];
    for (int j = 0; j < states; ++j) s[j] = static_cast<const Complex*>(old[j])[i];
    update_complex<kRule>(s, static_cast<const Complex*>(grad)[i], static_cast<const Complex*>(scalars));
    for (int j = 0; j < states; ++j) static_cast<Complex*>(fresh[j])[i] = s[j];
  }
}

UpdateLoop find_complex(UpdateRule rule) {
  using enum UpdateRule;
  switch (rule) {
    case kGradientDescent:
      return &run_complex<kGradientDescent>;
    case kMomentum:
      return &run_complex<kMomentum>;
    case kNesterovMomentum:
      return &run_complex<kNesterovMomentum>;
    case kKerasMomentum:
      return &run_complex<kKerasMomentum>;
    case kKerasNesterov:
      return &run_complex<kKerasNesterov>;
    case kAdam:
      return &run_complex<kAdam>;
    case kNesterovAdam:
      return &run_complex<kNesterovAdam>;
    case kRmsProp:
      return &run_complex<kRmsProp>;
    case kCenteredRmsProp:
      return &run_complex<kCenteredRmsProp>;
    case kAdagrad:
      return &run_complex<kAdagrad>;
    case kAdadelta:
      return &run_complex<kAdadelta>;
    default:
      return nullptr;
  }
}

}  // namespace

UpdateLoop find_update(UpdateRule rule, DType dtype, bool root) {
  if (dtype == DType::kComplex128) return find_complex(rule);
  return HWY_DYNAMIC_DISPATCH(find_loop)(rule, dtype, root);
}

namespace {

// in: lr, l1, l2, l2_shrinkage, lr_power. out: exponent, scale of the gradient, scale of the rate, l1, 2 l2, shrinkage.
std::array<double, kMaxUpdateScalars> prepare_ftrl(std::span<const double> in, bool multiply_linear_by_lr) {
  const double lr = in[0], l1 = in[1], l2 = in[2];
  const double shrinkage = in.size() > 4 ? in[3] : 0;
  const double exponent = -in[in.size() - 1];
  if (multiply_linear_by_lr) return {exponent, lr, 1, l1 * lr, 2 * l2 * lr, 2 * shrinkage};
  return {exponent, 1, 1 / lr, l1, 2 * l2, 2 * shrinkage};
}

// Of the rules that have complex numbers, and AMSGrad.
template <typename N>
std::array<N, kMaxUpdateScalars> prepare_any(UpdateRule rule, std::span<const N> in, bool flag) {
  const N one = 1.0, zero = 0.0;
  switch (rule) {
    case UpdateRule::kGradientDescent:
      return {in[0]};
    case UpdateRule::kMomentum:
    case UpdateRule::kNesterovMomentum:
    case UpdateRule::kKerasMomentum:
    case UpdateRule::kKerasNesterov:
      return {in[0], in[1]};
    case UpdateRule::kAdam:
    case UpdateRule::kNesterovAdam:
    case UpdateRule::kAdamAmsgrad:
      return {in[2] * std::sqrt(one - in[1]) / (one - in[0]), one - in[3], one - in[4], in[5], in[3]};
    case UpdateRule::kRmsProp:
    case UpdateRule::kCenteredRmsProp:
      return {in[0], one - in[1], in[2], in[3]};
    case UpdateRule::kAdagrad:
      return {in[0], in.size() > 1 ? in[1] : zero, flag ? one : zero};
    case UpdateRule::kAdadelta:
      return {in[0], in[1], one - in[1], in[2]};
    default:
      return {};
  }
}

Status check_penalty(std::string_view name, double value) {
  if (value >= 0) return {};
  return invalid_argument(name, " regularization strength is not a non-negative scalar: ", value);
}

Status check_ftrl(std::span<const double> in, bool multiply_linear_by_lr) {
  const double lr = in[0], power = in.back();
  if (!(lr > 0 || (lr == 0 && multiply_linear_by_lr))) {
    return invalid_argument("lr is not a positive scalar (or zero if multiply_linear_by_lr is set): ", lr);
  }
  TUTTI_RETURN_IF_ERROR(check_penalty("l1", in[1]));
  TUTTI_RETURN_IF_ERROR(check_penalty("l2", in[2]));
  if (in.size() > 4) TUTTI_RETURN_IF_ERROR(check_penalty("l2 shrinkage", in[3]));
  if (!(power <= 0)) return invalid_argument("lr_power is not a non-positive scalar: ", power);
  return {};
}

}  // namespace

Status check_scalars(UpdateRule rule, std::span<const double> in, bool flag, bool sparse) {
  if (rule == UpdateRule::kFtrl && sparse) return check_ftrl(in, flag);
  if (rule != UpdateRule::kProximalAdagrad) return {};
  if (!(in[0] > 0)) return invalid_argument("lr is not a positive scalar: ", in[0]);
  TUTTI_RETURN_IF_ERROR(check_penalty("l1", in[1]));
  return check_penalty("l2", in[2]);
}

std::array<double, kMaxUpdateScalars> prepare_scalars(UpdateRule rule, std::span<const double> in, bool flag) {
  switch (rule) {
    case UpdateRule::kProximalDescent:
    case UpdateRule::kProximalAdagrad:
      return {in[0], std::max(in[1], 0.0), in[2]};  // a negative l1 does nothing
    case UpdateRule::kAdaMax:
      return {in[1] / (1 - in[0]), 1 - in[2], in[3], in[4]};
    case UpdateRule::kFtrl:
      return prepare_ftrl(in, flag);
    case UpdateRule::kAdagradDa:
      return {-in[0], in[1] * in[3], in[2] * in[3] * in[0]};
    case UpdateRule::kAddSign:
      return {in[0], in[1], in[2], in[3], 1 - in[3]};
    case UpdateRule::kPowerSign:
      return {in[0], in[1] * in[2], 0, in[3], 1 - in[3]};
    default:
      return prepare_any(rule, in, flag);
  }
}

std::array<Complex, kMaxUpdateScalars> prepare_scalars(UpdateRule rule, std::span<const Complex> in, bool flag) {
  return prepare_any(rule, in, flag);
}

int update_states(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kGradientDescent:
    case UpdateRule::kProximalDescent:
      return 1;
    case UpdateRule::kMomentum:
    case UpdateRule::kNesterovMomentum:
    case UpdateRule::kKerasMomentum:
    case UpdateRule::kKerasNesterov:
    case UpdateRule::kAdagrad:
    case UpdateRule::kProximalAdagrad:
    case UpdateRule::kAddSign:
    case UpdateRule::kPowerSign:
      return 2;
    case UpdateRule::kCenteredRmsProp:
    case UpdateRule::kAdamAmsgrad:
      return 4;
    default:
      return 3;
  }
}

}  // namespace tutti::cpu
#endif

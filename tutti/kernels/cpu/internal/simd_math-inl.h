// Vector functions that keep IEEE's special cases: Highway's own are defined on part of the range only.
#if defined(TUTTI_KERNELS_CPU_INTERNAL_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_CPU_INTERNAL_SIMD_MATH_INL_H_
#undef TUTTI_KERNELS_CPU_INTERNAL_SIMD_MATH_INL_H_
#else
#define TUTTI_KERNELS_CPU_INTERNAL_SIMD_MATH_INL_H_
#endif

#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The largest x whose exponential is finite.
template <typename T>
constexpr T max_exp_argument() {
  return sizeof(T) == 4 ? static_cast<T>(88.7228390520683) : static_cast<T>(709.782712893384);
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  using T = hn::TFromD<D>;
  const V limit = hn::Set(d, max_exp_argument<T>());
  const V finite = hn::Exp(d, hn::Min(x, limit));
  const V bounded = hn::IfThenElse(hn::Gt(x, limit), hn::Set(d, std::numeric_limits<T>::infinity()), finite);
  return hn::IfThenElse(hn::IsNaN(x), x, bounded);
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  using T = hn::TFromD<D>;
  const V limit = hn::Set(d, max_exp_argument<T>());
  const V finite = hn::Expm1(d, hn::Min(x, limit));
  const V bounded = hn::IfThenElse(hn::Gt(x, limit), hn::Set(d, std::numeric_limits<T>::infinity()), finite);
  return hn::IfThenElse(hn::IsNaN(x), x, bounded);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  using T = hn::TFromD<D>;
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  using T = hn::TFromD<D>;
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const V minus_one = hn::Set(d, static_cast<T>(-1));
  V y = hn::Log1p(d, x);
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, minus_one), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, minus_one), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, static_cast<hn::TFromD<D>>(1));
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Vector loops over rows of logits, compiled once per instruction set.
#include <cmath>
#include <limits>

#include "tutti/kernels/cpu/internal/simd_targets.h"
#include "tutti/kernels/cpu/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/softmax_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "tutti/kernels/cpu/internal/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

// The largest logit. NaN in, NaN out: the rest of the row then becomes NaN too.
template <typename T>
T row_maximum(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto best = lowest;
  auto bad = hn::Zero(d);  // the maximum instruction drops NaNs; their sum keeps them
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    best = hn::Max(best, v);
    bad = hn::Add(bad, hn::IfThenElseZero(hn::IsNaN(v), v));
  }
  if (i < n) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
    const auto v = hn::MaskedLoad(rest, d, x + i);
    best = hn::Max(best, hn::IfThenElse(rest, v, lowest));
    bad = hn::Add(bad, hn::IfThenElseZero(hn::IsNaN(v), v));
  }
  return hn::GetLane(hn::Add(hn::MaxOfLanes(d, best), hn::SumOfLanes(d, bad)));
}

// out[i] = e^(x[i] - shift); returns the sum.
template <typename T>
T exp_and_sum(const T* x, std::int64_t n, T shift, T* out) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto e = exp(d, hn::Sub(hn::LoadU(d, x + i), by));
    hn::StoreU(e, d, out + i);
    sum = hn::Add(sum, e);
  }
  if (i < n) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
    const auto e = exp(d, hn::Sub(hn::MaskedLoad(rest, d, x + i), by));
    hn::BlendedStore(e, rest, d, out + i);
    sum = hn::Add(sum, hn::IfThenElseZero(rest, e));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <typename T>
void scale(T* x, std::int64_t n, T factor) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), by), d, x + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  hn::BlendedStore(hn::Mul(hn::MaskedLoad(rest, d, x + i), by), rest, d, x + i);
}

template <typename T>
void softmax_row(const void* logits, std::int64_t n, void* to) {
  const T* x = static_cast<const T*>(logits);
  T* out = static_cast<T*>(to);
  const T sum = exp_and_sum(x, n, row_maximum(x, n), out);
  scale(out, n, T{1} / sum);
}

template <typename T>
void log_softmax_row(const void* logits, std::int64_t n, void* to) {
  const T* x = static_cast<const T*>(logits);
  T* out = static_cast<T*>(to);
  const T shift = row_maximum(x, n);
  const T log_sum = std::log(exp_and_sum(x, n, shift, out));
  for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - shift) - log_sum;
}

template <typename T>
void sparse_cross_entropy_row(const void* logits, std::int64_t label, std::int64_t n, void* loss, void* backprop) {
  const T* x = static_cast<const T*>(logits);
  T* out = static_cast<T*>(backprop);
  const T shift = row_maximum(x, n);
  const T sum = exp_and_sum(x, n, shift, out);
  scale(out, n, T{1} / sum);
  *static_cast<T*>(loss) = std::log(sum) - (x[label] - shift);
  out[label] -= T{1};
}

// Labels need not sum to one; an operand may be one repeated column (step 0).
template <typename T>
void cross_entropy_row(const void* logits, const void* labels, int logit_step, int label_step, std::int64_t n,
                       void* loss, void* backprop) {
  const T* x = static_cast<const T*>(logits);
  const T* p = static_cast<const T*>(labels);
  T* out = static_cast<T*>(backprop);
  if (logit_step == 0) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = x[0];
    x = out;
  }
  const T shift = row_maximum(x, n);
  T dot = 0;     // labels times shifted logits
  T weight = 0;  // sum of labels
  for (std::int64_t i = 0; i < n; ++i) {
    const T label = p[i * label_step];
    // A label of 0 contributes nothing, whatever its logit: 0 times -infinity would be NaN.
    if (label != 0) dot += label * (x[i] - shift);
    weight += label;
  }
  const T sum = exp_and_sum(x, n, shift, out);
  *static_cast<T*>(loss) = weight * std::log(sum) - dot;
  const T factor = T{1} / sum;
  for (std::int64_t i = 0; i < n; ++i) out[i] = out[i] * factor - p[i * label_step];
}

template <typename T>
internal::SoftmaxLoops loops() {
  return {&softmax_row<T>, &log_softmax_row<T>, &cross_entropy_row<T>, &sparse_cross_entropy_row<T>};
}

}  // namespace

internal::SoftmaxLoops find_loops(DType dtype) {
  if (dtype == DType::kFloat) return loops<float>();
  if (dtype == DType::kDouble) return loops<double>();
  return {};
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_loops);

internal::SoftmaxLoops internal::find_softmax(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_loops)(dtype); }

}  // namespace tutti::cpu
#endif

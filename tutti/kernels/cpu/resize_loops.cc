// Vector loops of resizing, compiled once per instruction set.
#include <span>

#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/resize_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

namespace hr = hwy::HWY_NAMESPACE;

void lerp_short(const float* from, std::span<const internal::LinearTap> taps, std::int64_t channels, float* out) {
  for (const internal::LinearTap& tap : taps) {
    const float* a = from + tap.lower * channels;
    const float* b = from + tap.upper * channels;
#if HWY_TARGET == HWY_SCALAR
    for (std::int64_t c = 0; c < channels; ++c) out[c] = a[c] + (b[c] - a[c]) * tap.share;
#else
    const hr::FixedTag<float, 4> d;
    const auto lower = hr::LoadU(d, a);
    hr::StoreU(hr::MulAdd(hr::Sub(hr::LoadU(d, b), lower), hr::Set(d, tap.share), lower), d, out);
#endif
    out += channels;
  }
}

void blend_rows(const float* a, const float* b, float share, std::int64_t n, float* out) {
  const hr::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hr::Lanes(d));
  const auto by = hr::Set(d, share);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto from = hr::LoadU(d, a + i);
    hr::StoreU(hr::MulAdd(hr::Sub(hr::LoadU(d, b + i), from), by, from), d, out + i);
  }
  for (; i < n; ++i) out[i] = a[i] + (b[i] - a[i]) * share;
}

}  // namespace

internal::ResizeLoops make_resize_loops() { return {&lerp_short, &blend_rows}; }

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(make_resize_loops);

internal::ResizeLoops internal::resize_loops() { return HWY_DYNAMIC_DISPATCH(make_resize_loops)(); }

}  // namespace tutti::cpu
#endif

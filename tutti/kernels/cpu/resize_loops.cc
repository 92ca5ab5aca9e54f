// Vector loops of resizing, compiled once per instruction set.
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

void gather_lerp(const float* from, const std::int32_t* lower, const std::int32_t* upper, const float* share,
                 std::int64_t n, float* out) {
  const hr::ScalableTag<float> d;
  const hr::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hr::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hr::GatherIndex(d, from, hr::LoadU(di, lower + i));
    const auto b = hr::GatherIndex(d, from, hr::LoadU(di, upper + i));
    hr::StoreU(hr::MulAdd(hr::Sub(b, a), hr::LoadU(d, share + i), a), d, out + i);
  }
  for (; i < n; ++i) out[i] = from[lower[i]] + (from[upper[i]] - from[lower[i]]) * share[i];
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

internal::ResizeLoops make_resize_loops() { return {&gather_lerp, &blend_rows}; }

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(make_resize_loops);

internal::ResizeLoops internal::resize_loops() { return HWY_DYNAMIC_DISPATCH(make_resize_loops)(); }

}  // namespace tutti::cpu
#endif

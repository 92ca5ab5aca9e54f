// Vector loops over the gates of recurrent cells, compiled once per instruction set: what lies between the products,
// read and written once.
#include <algorithm>

#include "tutti/kernels/cpu/internal/simd_targets.h"
#include "tutti/kernels/cpu/recurrent.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/recurrent_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "tutti/kernels/cpu/internal/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

struct WholeVector {
  Floats load(const float* from) const { return hn::LoadU(FloatTag(), from); }
  void store(Floats v, float* to) const { hn::StoreU(v, FloatTag(), to); }
};
struct PartOfVector {
  hn::Mask<FloatTag> mask;
  Floats load(const float* from) const { return hn::MaskedLoad(mask, FloatTag(), from); }
  void store(Floats v, float* to) const { hn::BlendedStore(v, mask, FloatTag(), to); }
};

// Calls fn(first, access) for the vectors of n floats.
template <typename Fn>
HWY_INLINE void for_cells(std::int64_t n, const Fn& fn) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) fn(i, WholeVector());
  if (i < n) fn(i, PartOfVector{hn::FirstN(FloatTag(), static_cast<std::size_t>(n - i))});
}

HWY_INLINE Floats one() { return hn::Set(FloatTag(), 1.0f); }
HWY_INLINE Floats squashed(Floats x) { return sigmoid(FloatTag(), x); }

void lstm(const internal::LstmStep& s, GateOrder order, std::int64_t cells, std::int64_t begin, std::int64_t end) {
  const Floats forget_bias = hn::Set(FloatTag(), s.forget_bias);
  const Floats clip = hn::Set(FloatTag(), s.clip);
  for (std::int64_t row = begin; row < end; ++row) {
    for_cells(cells, [&](std::int64_t c, auto access) HWY_ATTR {
      const std::int64_t at = row * cells + c;
      const auto gate = [&](int which) HWY_ATTR {
        const std::int64_t column = which * cells + c;
        const std::int64_t place = row * 4 * cells + column;
        const Floats sum = hn::Add(access.load(s.from_x + place), access.load(s.from_h + place));
        return hn::Add(sum, access.load(s.bias + column));
      };
      const Floats before = access.load(s.cs_prev + at);
      const auto peeped = [&](Floats sum, int which, Floats state) HWY_ATTR {
        return s.peepholes[which] == nullptr ? sum : hn::MulAdd(state, access.load(s.peepholes[which] + c), sum);
      };
      const Floats i = squashed(peeped(gate(order.i), 0, before));
      const Floats f = squashed(peeped(hn::Add(gate(order.f), forget_bias), 1, before));
      const Floats ci = hn::Tanh(FloatTag(), gate(order.ci));
      Floats cs = hn::Add(hn::Mul(i, ci), hn::Mul(f, before));
      if (s.clip > 0) cs = hn::Max(hn::Min(cs, clip), hn::Neg(clip));
      const Floats co = hn::Tanh(FloatTag(), cs);
      const Floats o = squashed(peeped(gate(order.o), 2, cs));
      access.store(i, s.i + at);
      access.store(cs, s.cs + at);
      access.store(f, s.f + at);
      access.store(o, s.o + at);
      access.store(ci, s.ci + at);
      access.store(co, s.co + at);
      access.store(hn::Mul(o, co), s.h + at);
    });
  }
}

// y * (1 - y), the slope of a sigmoid whose value is y.
HWY_INLINE Floats sigmoid_slope(Floats y) { return hn::NegMulAdd(y, y, y); }
// 1 - y * y, that of a tanh.
HWY_INLINE Floats tanh_slope(Floats y) { return hn::NegMulAdd(y, y, one()); }

void lstm_grad(const internal::LstmStepGrad& s, GateOrder order, std::int64_t cells, std::int64_t begin,
               std::int64_t end) {
  const bool peeps = s.peepholes[0] != nullptr;
  for (std::int64_t row = begin; row < end; ++row) {
    for_cells(cells, [&](std::int64_t c, auto access) HWY_ATTR {
      const std::int64_t at = row * cells + c;
      Floats dh = access.load(s.h_grad + at), dcs = access.load(s.cs_grad + at);
      if (s.later_h_grad != nullptr) dh = hn::Add(dh, access.load(s.later_h_grad + at));
      if (s.later_cs_grad != nullptr) dcs = hn::Add(dcs, access.load(s.later_cs_grad + at));
      const Floats i = access.load(s.i + at), f = access.load(s.f + at), o = access.load(s.o + at);
      const Floats ci = access.load(s.ci + at), co = access.load(s.co + at);
      const Floats before = access.load(s.cs_prev + at);
      const Floats d_o = hn::Mul(hn::Mul(sigmoid_slope(o), dh), co);
      dcs = hn::MulAdd(hn::Mul(tanh_slope(co), dh), o, dcs);
      if (peeps) dcs = hn::MulAdd(d_o, access.load(s.peepholes[2] + c), dcs);
      const Floats d_ci = hn::Mul(hn::Mul(tanh_slope(ci), dcs), i);
      const Floats d_f = hn::Mul(hn::Mul(sigmoid_slope(f), dcs), before);
      const Floats d_i = hn::Mul(hn::Mul(sigmoid_slope(i), dcs), ci);
      float* gates = s.gates + row * 4 * cells + c;
      access.store(d_i, gates + order.i * cells);
      access.store(d_ci, gates + order.ci * cells);
      access.store(d_f, gates + order.f * cells);
      access.store(d_o, gates + order.o * cells);
      Floats d_before = hn::Mul(dcs, f);
      if (peeps) {
        d_before = hn::MulAdd(d_i, access.load(s.peepholes[0] + c), d_before);
        d_before = hn::MulAdd(d_f, access.load(s.peepholes[1] + c), d_before);
        const auto add = [&](int which, Floats slope, Floats state) HWY_ATTR {
          float* const to = s.peephole_grads[which] + c;
          access.store(hn::MulAdd(slope, state, access.load(to)), to);
        };
        add(0, d_i, before);
        add(1, d_f, before);
        add(2, d_o, access.load(s.cs + at));
      }
      access.store(d_before, s.cs_prev_grad + at);
    });
  }
}

void gru_gates(const internal::GruGates& g, std::int64_t cells, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const bars = g.bars + row * 2 * cells;
    for_cells(cells, [&](std::int64_t c, auto access) HWY_ATTR {
      const std::int64_t at = row * cells + c;
      const Floats r = squashed(hn::Add(access.load(bars + c), access.load(g.bias + c)));
      const Floats u = squashed(hn::Add(access.load(bars + cells + c), access.load(g.bias + cells + c)));
      access.store(r, g.r + at);
      access.store(u, g.u + at);
      access.store(hn::Mul(r, access.load(g.h_prev + at)), g.hr + at);
    });
  }
}

void gru_state(const float* bar, const float* bias, const float* u, const float* h_prev, float* c_out, float* h,
               std::int64_t cells, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    for_cells(cells, [&](std::int64_t c, auto access) HWY_ATTR {
      const std::int64_t at = row * cells + c;
      const Floats state = hn::Tanh(FloatTag(), hn::Add(access.load(bar + at), access.load(bias + c)));
      const Floats kept = access.load(u + at);
      access.store(state, c_out + at);
      const Floats fresh = hn::Mul(hn::Sub(one(), kept), state);
      access.store(hn::MulAdd(kept, access.load(h_prev + at), fresh), h + at);
    });
  }
}

}  // namespace

internal::RecurrentLoops find_recurrent() { return {&lstm, &lstm_grad, &gru_gates, &gru_state}; }

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_recurrent);

internal::RecurrentLoops internal::find_recurrent_loops() { return HWY_DYNAMIC_DISPATCH(find_recurrent)(); }

}  // namespace tutti::cpu
#endif

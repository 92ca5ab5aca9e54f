// Vector loops of pools over the channels of a pixel, compiled once per instruction set. They are bound by memory.
// oneDNN has the same loops forward, but its gradient of a maximum wants a workspace that TensorFlow's op does not hand
// over: making it and using it took 5.0 ms where these take under 2 (128x28x28x32, one thread).
#include <algorithm>
#include <limits>
#include <utility>

#include "tutti/kernels/cpu/internal/pool_window.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"
#include "tutti/kernels/cpu/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/pool_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using internal::Span;

// One window: its pixels on the image, and the step between its rows, in elements.
template <typename T>
struct Window {
  Window(const PoolShape& s, const T* image, std::int64_t row, std::int64_t column)
      : rows(s.rows, row), columns(s.columns, column), channels(s.channels), row_step(s.columns.in * s.channels) {
    offset = (rows.begin * s.columns.in + columns.begin) * s.channels;
    first = image + offset;
  }
  const T* at(std::int64_t r, std::int64_t c) const { return first + r * row_step + c * channels; }
  std::int64_t count() const { return rows.size() * columns.size(); }

  Span rows, columns;
  std::int64_t channels;
  std::int64_t row_step;
  std::int64_t offset;  // of the first pixel in the image
  const T* first;
};

// Loads and stores of the whole vector or, at the end of the channels, of part of it.
template <class D>
struct Whole {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  V load(D d, const T* from) const { return hn::LoadU(d, from); }
  void store(D d, V v, T* to) const { hn::StoreU(v, d, to); }
};
template <class D>
struct Part {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  hn::Mask<D> mask;
  V load(D d, const T* from) const { return hn::MaskedLoad(mask, d, from); }
  void store(D d, V v, T* to) const { hn::BlendedStore(v, mask, d, to); }
};

// Calls fn(first channel, access) for the vectors of a pixel.
template <typename T, typename Fn>
HWY_INLINE void for_channels(std::int64_t channels, const Fn& fn) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) fn(c, Whole<hn::ScalableTag<T>>());
  if (c < channels) {
    fn(c, Part<hn::ScalableTag<T>>{hn::FirstN(D(), static_cast<std::size_t>(channels - c))});
  }
}

// Whether v replaces the best so far: it is larger, or the first NaN.
template <class V>
HWY_INLINE auto beats(V v, V best) {
  return hn::And(hn::Not(hn::Le(v, best)), hn::Eq(best, best));
}

// The largest of each channel, where something may be NaN.
template <typename T, class A>
HWY_NOINLINE auto careful_max(const Window<T>& w, std::int64_t c, A access) {
  const hn::ScalableTag<T> d;
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (std::int64_t r = 0; r < w.rows.size(); ++r) {
    for (std::int64_t k = 0; k < w.columns.size(); ++k) {
      const auto v = access.load(d, w.at(r, k) + c);
      best = hn::IfThenElse(beats(v, best), v, best);
    }
  }
  return best;
}

// Calls fn(row, column) for the pixels of a window, of which kSide says that it has as many of both; 0: any window.
template <std::int64_t kSide, typename T, typename Fn>
HWY_INLINE void for_pixels(const Window<T>& w, const Fn& fn) {
  if constexpr (kSide == 2) {
    fn(0, 0), fn(0, 1), fn(1, 0), fn(1, 1);
  } else if constexpr (kSide == 3) {
    fn(0, 0), fn(0, 1), fn(0, 2), fn(1, 0), fn(1, 1), fn(1, 2), fn(2, 0), fn(2, 1), fn(2, 2);
  } else {
    for (std::int64_t r = 0; r < w.rows.size(); ++r) {
      for (std::int64_t k = 0; k < w.columns.size(); ++k) fn(r, k);
    }
  }
}

// The largest of each channel. Comparisons that heed NaN take twice the time of Max, which does not. So what was seen
// is also added up: a sum that is a number says that there was no NaN (nor infinities of both signs).
struct Largest {
  template <typename T, std::int64_t kSide, class A>
  static HWY_INLINE auto of(const Window<T>& w, std::int64_t c, A access) {
    const hn::ScalableTag<T> d;
    auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
    auto sum = hn::Zero(d);
    for_pixels<kSide>(w, [&](std::int64_t r, std::int64_t k) HWY_ATTR {
      const auto v = access.load(d, w.at(r, k) + c);
      best = hn::Max(v, best);
      sum = hn::Add(sum, v);
    });
    if (!hn::AllTrue(d, hn::Eq(sum, sum))) best = careful_max(w, c, access);
    return best;
  }
};

struct Mean {
  template <typename T, std::int64_t kSide, class A>
  static HWY_INLINE auto of(const Window<T>& w, std::int64_t c, A access) {
    const hn::ScalableTag<T> d;
    auto sum = hn::Zero(d);
    for_pixels<kSide>(
        w, [&](std::int64_t r, std::int64_t k) HWY_ATTR { sum = hn::Add(sum, access.load(d, w.at(r, k) + c)); });
    return hn::Div(sum, hn::Set(d, static_cast<T>(w.count())));
  }
};

template <class What, typename T, std::int64_t kSide>
HWY_INLINE void pool_window(const Window<T>& w, T* to) {
  for_channels<T>(w.channels, [&](std::int64_t c, auto access) HWY_ATTR {
    access.store(hn::ScalableTag<T>(), What::template of<T, kSide>(w, c, access), to + c);
  });
}

template <class What, typename T>
void pool_rows(const PoolShape& s, const void* in, void* out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* image = static_cast<const T*>(in) + row / s.rows.out * s.image_elements();
    T* to = static_cast<T*>(out) + row * s.columns.out * s.channels;
    for (std::int64_t column = 0; column < s.columns.out; ++column, to += s.channels) {
      const Window<T> w(s, image, row % s.rows.out, column);
      const std::int64_t rows = w.rows.size(), columns = w.columns.size();
      if (rows == 2 && columns == 2) {
        pool_window<What, T, 2>(w, to);
      } else if (rows == 3 && columns == 3) {
        pool_window<What, T, 3>(w, to);
      } else {
        pool_window<What, T, 0>(w, to);
      }
    }
  }
}

// Where windows tile the image, each element is written once; elsewhere sums are made over zeros.
template <typename T>
bool prepare(const PoolShape& s, T* image) {
  if (internal::tiles(s.rows) && internal::tiles(s.columns)) return true;
  std::fill_n(image, s.image_elements(), T{});
  return false;
}

template <class A, class D, class V, typename T>
HWY_INLINE void put(const A& access, D d, V v, T* to, bool once) {
  access.store(d, once ? v : hn::Add(access.load(d, to), v), to);
}

// The gradient of windows before a Relu: only that of positive maxima counts, and is added to `sums`.
template <bool kRelu, class A, class D, class V, typename T>
HWY_INLINE V counted(const A& access, D d, V g, V best, std::int64_t c, T* sums) {
  if constexpr (kRelu) {
    g = hn::IfThenElseZero(hn::Gt(best, hn::Zero(d)), g);
    access.store(d, hn::Add(access.load(d, sums + c), g), sums + c);
  }
  return g;
}

// The gradient of one window's maxima, for a vector of its channels: all of it goes to the first pixel that has the
// maximum. Where something may be NaN.
template <typename T, bool kRelu, class A>
HWY_NOINLINE void careful_max_grad(const Window<T>& w, std::int64_t c, A access, const T* from, T* to, T* sums,
                                   bool once) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T{1});
  // First the number of the winner, then the gradient for it and zero for the others. Numbers are exact in T.
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto winner = hn::Zero(d);
  auto number = hn::Zero(d);
  for (std::int64_t r = 0; r < w.rows.size(); ++r) {
    for (std::int64_t k = 0; k < w.columns.size(); ++k) {
      const auto v = access.load(d, w.at(r, k) + c);
      const auto wins = beats(v, best);
      best = hn::IfThenElse(wins, v, best);
      winner = hn::IfThenElse(wins, number, winner);
      number = hn::Add(number, one);
    }
  }
  const auto g = counted<kRelu>(access, d, access.load(d, from + c), best, c, sums);
  number = hn::Zero(d);
  for (std::int64_t r = 0; r < w.rows.size(); ++r) {
    for (std::int64_t k = 0; k < w.columns.size(); ++k) {
      const auto share = hn::IfThenElseZero(hn::Eq(number, winner), g);
      put(access, d, share, to + r * w.row_step + k * w.channels + c, once);
      number = hn::Add(number, one);
    }
  }
}

// The same where nothing is NaN: what was seen is also multiplied by zero and added up, and the sum is zero. A `rows`
// and `columns` that are constants spare it its inner loops.
template <typename T, bool kRelu, class A>
HWY_INLINE void max_grad_of(const Window<T>& w, std::int64_t rows, std::int64_t columns, std::int64_t c, A access,
                            const T* from, T* to, T* sums, bool once) {
  const hn::ScalableTag<T> d;
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto nothing = hn::Zero(d);
  HWY_UNROLL(2)
  for (std::int64_t r = 0; r < rows; ++r) {
    HWY_UNROLL(2)
    for (std::int64_t k = 0; k < columns; ++k) {
      const auto v = access.load(d, w.at(r, k) + c);
      best = hn::Max(v, best);
      nothing = hn::MulAdd(v, hn::Zero(d), nothing);
    }
  }
  if (!hn::AllTrue(d, hn::Eq(nothing, hn::Zero(d)))) {
    return careful_max_grad<T, kRelu>(w, c, access, from, to, sums, once);
  }
  auto rest = counted<kRelu>(access, d, access.load(d, from + c), best, c, sums);  // what no pixel has got yet
  HWY_UNROLL(2)
  for (std::int64_t r = 0; r < rows; ++r) {
    HWY_UNROLL(2)
    for (std::int64_t k = 0; k < columns; ++k) {
      const auto wins = hn::Eq(access.load(d, w.at(r, k) + c), best);
      put(access, d, hn::IfThenElseZero(wins, rest), to + r * w.row_step + k * w.channels + c, once);
      rest = hn::IfThenZeroElse(wins, rest);
    }
  }
}

template <typename T, bool kRelu>
void unpool(const PoolShape& s, const void* in, const void* grad, void* to, void* channel_sums, std::int64_t begin,
            std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const T* image = static_cast<const T*>(in) + n * s.image_elements();
    const T* from = static_cast<const T*>(grad) + n * s.pooled_elements();
    T* result = static_cast<T*>(to) + n * s.image_elements();
    const bool once = prepare(s, result);
    T* image_sums = nullptr;
    T* sums = nullptr;  // of a row of windows: errors grow with the number of rows only
    if constexpr (kRelu) {
      image_sums = static_cast<T*>(channel_sums) + n * 2 * s.channels;
      sums = image_sums + s.channels;
      std::fill_n(image_sums, 2 * s.channels, T{0});
    }
    for (std::int64_t row = 0; row < s.rows.out; ++row) {
      for (std::int64_t column = 0; column < s.columns.out; ++column, from += s.channels) {
        const Window<T> w(s, image, row, column);
        T* target = result + w.offset;
        if (once && w.rows.size() == 2 && w.columns.size() == 2) {
          for_channels<T>(s.channels, [&](std::int64_t c, auto access) HWY_ATTR {
            max_grad_of<T, kRelu>(w, 2, 2, c, access, from, target, sums, true);
          });
        } else {
          for_channels<T>(s.channels, [&](std::int64_t c, auto access) HWY_ATTR {
            max_grad_of<T, kRelu>(w, w.rows.size(), w.columns.size(), c, access, from, target, sums, once);
          });
        }
      }
      if constexpr (kRelu) {
        for (std::int64_t c = 0; c < s.channels; ++c) image_sums[c] += std::exchange(sums[c], T{0});
      }
    }
  }
}

template <typename T>
void max_grad(const PoolShape& s, const void* in, const void* grad, void* to, std::int64_t begin, std::int64_t end) {
  unpool<T, false>(s, in, grad, to, nullptr, begin, end);
}

template <typename T>
void mean_grad(const PoolShape& s, const void* grad, void* to, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  for (std::int64_t n = begin; n < end; ++n) {
    const T* from = static_cast<const T*>(grad) + n * s.pooled_elements();
    T* result = static_cast<T*>(to) + n * s.image_elements();
    const bool once = prepare(s, result);
    for (std::int64_t cell = 0; cell < s.rows.out * s.columns.out; ++cell, from += s.channels) {
      const Window<T> w(s, result, cell / s.columns.out, cell % s.columns.out);
      const auto count = hn::Set(d, static_cast<T>(w.count()));
      T* target = result + w.offset;
      for_channels<T>(s.channels, [&](std::int64_t c, auto access) HWY_ATTR {
        const auto share = hn::Div(access.load(d, from + c), count);
        for (std::int64_t r = 0; r < w.rows.size(); ++r) {
          for (std::int64_t k = 0; k < w.columns.size(); ++k) {
            put(access, d, share, target + r * w.row_step + k * s.channels + c, once);
          }
        }
      });
    }
  }
}

template <typename T>
void max_grad_grad(const PoolShape& s, const void* in, const void* grad, void* to, std::int64_t begin,
                   std::int64_t end) {
  const hn::ScalableTag<T> d;
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (std::int64_t n = begin; n < end; ++n) {
    const T* image = static_cast<const T*>(in) + n * s.image_elements();
    const T* grads = static_cast<const T*>(grad) + n * s.image_elements();
    T* result = static_cast<T*>(to) + n * s.pooled_elements();
    for (std::int64_t cell = 0; cell < s.rows.out * s.columns.out; ++cell, result += s.channels) {
      const Window<T> w(s, image, cell / s.columns.out, cell % s.columns.out);
      const T* from = grads + w.offset;
      for_channels<T>(s.channels, [&](std::int64_t c, auto access) HWY_ATTR {
        auto best = lowest;
        // What the first element has, should none beat minus infinity.
        auto chosen = w.count() > 0 ? access.load(d, from + c) : hn::Zero(d);
        for (std::int64_t r = 0; r < w.rows.size(); ++r) {
          for (std::int64_t k = 0; k < w.columns.size(); ++k) {
            const auto v = access.load(d, w.at(r, k) + c);
            const auto wins = beats(v, best);
            best = hn::IfThenElse(wins, v, best);
            chosen = hn::IfThenElse(wins, access.load(d, from + r * w.row_step + k * s.channels + c), chosen);
          }
        }
        access.store(d, chosen, result + c);
      });
    }
  }
}

template <typename T>
internal::PoolLoops loops() {
  return {&pool_rows<Largest, T>, &pool_rows<Mean, T>, &max_grad<T>,
          &unpool<T, true>,       &mean_grad<T>,       &max_grad_grad<T>};
}

}  // namespace

internal::PoolLoops find_pools(DType dtype) {
  if (dtype == DType::kFloat) return loops<float>();
  if (dtype == DType::kDouble) return loops<double>();
  return {};
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_pools);

internal::PoolLoops internal::find_pool_loops(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_pools)(dtype); }

}  // namespace tutti::cpu
#endif

// Vector loops of batch normalisation, compiled once per instruction set. They are bound by memory: the statistics are
// taken in one pass over memory, block by block, each block twice while it is in cache (first its mean, then the
// squares around it), so that a large mean costs no digits.
#include <algorithm>

#include "tutti/kernels/cpu/batch_norm.h"
#include "tutti/kernels/cpu/internal/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/batch_norm_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using internal::ChannelGradSums;
using internal::ChannelMoments;

// A block of this many floats stays in the first cache; one of so many rows, though they be wide, in the second.
constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kLeastRows = 32;  // fewer would make putting blocks together dear

std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

struct Whole {
  V load(const float* from) const { return hn::LoadU(D(), from); }
  void store(V v, float* to) const { hn::StoreU(v, D(), to); }
};
struct Part {
  hn::Mask<D> mask;
  V load(const float* from) const { return hn::MaskedLoad(mask, D(), from); }
  void store(V v, float* to) const { hn::BlendedStore(v, mask, D(), to); }
};

// Calls fn(first, access) for the vectors of n floats.
template <typename Fn>
HWY_INLINE void for_vectors(std::int64_t n, const Fn& fn) {
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) fn(i, Whole());
  if (i < n) fn(i, Part{hn::FirstN(D(), static_cast<std::size_t>(n - i))});
}

void row_moments(const float* x, std::int64_t rows, std::int64_t channels, float* room, ChannelMoments* to) {
  float* means = room;
  float* squares = room + channels;
  const std::int64_t block = std::max(kLeastRows, kBlock / channels);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    const float* from = x + begin * channels;
    const V share = hn::Set(D(), 1.0f / static_cast<float>(count));
    for_vectors(channels, [&](std::int64_t c, auto access) HWY_ATTR {
      V sum = hn::Zero(D());
      for (std::int64_t r = 0; r < count; ++r) sum = hn::Add(sum, access.load(from + r * channels + c));
      const V mean = hn::Mul(sum, share);
      V square = hn::Zero(D());
      for (std::int64_t r = 0; r < count; ++r) {
        const V d = hn::Sub(access.load(from + r * channels + c), mean);
        square = hn::MulAdd(d, d, square);
      }
      access.store(mean, means + c);
      access.store(square, squares + c);
    });
    // As ChannelMoments::add, whose shares are those of all channels.
    const double before = static_cast<double>(begin), total = before + static_cast<double>(count);
    const double weight = static_cast<double>(count) / total, spread = before * weight;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double distance = static_cast<double>(means[c]) - to[c].mean;
      to[c].mean += distance * weight;
      to[c].squares += static_cast<double>(squares[c]) + distance * distance * spread;
      to[c].count = total;
    }
  }
}

void normalise_rows(const float* x, std::int64_t rows, std::int64_t channels, const float* mean, const float* factor,
                    const float* offset, float* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    for_vectors(channels, [&](std::int64_t c, auto access) HWY_ATTR {
      const V d = hn::Sub(access.load(x + c), access.load(mean + c));
      access.store(hn::MulAdd(d, access.load(factor + c), access.load(offset + c)), y + c);
    });
  }
}

// Adds kRows rows to the sums of their gradients, and of what these are multiplied by.
template <std::int64_t kRows>
HWY_INLINE void add_grad_rows(const float* dy, const float* x, std::int64_t channels, const float* mean, float* grads,
                              float* products) {
  for_vectors(channels, [&](std::int64_t c, auto access) HWY_ATTR {
    const V m = access.load(mean + c);
    V grad = access.load(grads + c), product = access.load(products + c);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const V g = access.load(dy + r * channels + c);
      grad = hn::Add(grad, g);
      product = hn::MulAdd(g, hn::Sub(access.load(x + r * channels + c), m), product);
    }
    access.store(grad, grads + c);
    access.store(product, products + c);
  });
}

// Four rows at a time from their beginning to their end: memory is read as it lies, and sums stay in the first cache.
void row_grad_sums(const float* dy, const float* x, std::int64_t rows, std::int64_t channels, const float* mean,
                   float* room, ChannelGradSums* to) {
  constexpr std::int64_t kRows = 128;
  float* grads = room;
  float* products = room + channels;
  const std::int64_t block = std::max(kRows, kBlock / channels);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t end = std::min(begin + block, rows);
    std::fill_n(room, 2 * channels, 0.0f);
    std::int64_t r = begin;
    for (; r + 4 <= end; r += 4) add_grad_rows<4>(dy + r * channels, x + r * channels, channels, mean, grads, products);
    for (; r < end; ++r) add_grad_rows<1>(dy + r * channels, x + r * channels, channels, mean, grads, products);
    for (std::int64_t c = 0; c < channels; ++c) {
      to[c].grad += static_cast<double>(grads[c]);
      to[c].product += static_cast<double>(products[c]);
    }
  }
}

void grad_rows(const float* dy, const float* x, std::int64_t rows, std::int64_t channels, const float* mean,
               const float* factor, const float* shift, const float* slope, float* dx) {
  for (std::int64_t r = 0; r < rows; ++r, dy += channels, x += channels, dx += channels) {
    for_vectors(channels, [&](std::int64_t c, auto access) HWY_ATTR {
      const V centred = hn::Sub(access.load(x + c), access.load(mean + c));
      const V level = hn::Sub(access.load(dy + c), access.load(shift + c));
      const V v = hn::NegMulAdd(centred, access.load(slope + c), level);
      access.store(hn::Mul(v, access.load(factor + c)), dx + c);
    });
  }
}

ChannelMoments plane_moments(const float* x, std::int64_t n) {
  ChannelMoments total;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    V sum = hn::Zero(D());
    for_vectors(count, [&](std::int64_t i, auto access) HWY_ATTR { sum = hn::Add(sum, access.load(x + begin + i)); });
    const float mean = hn::GetLane(hn::SumOfLanes(D(), sum)) / static_cast<float>(count);
    V square = hn::Zero(D());
    std::int64_t i = begin;
    for (; i + lanes() <= begin + count; i += lanes()) {
      const V d = hn::Sub(hn::LoadU(D(), x + i), hn::Set(D(), mean));
      square = hn::MulAdd(d, d, square);
    }
    double squares = static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), square)));
    for (; i < begin + count; ++i) squares += static_cast<double>((x[i] - mean) * (x[i] - mean));
    total.add({static_cast<double>(count), static_cast<double>(mean), squares});
  }
  return total;
}

void normalise_plane(const float* x, std::int64_t n, float mean, float factor, float offset, float* y) {
  const V m = hn::Set(D(), mean), f = hn::Set(D(), factor), o = hn::Set(D(), offset);
  for_vectors(n, [&](std::int64_t i, auto access)
                     HWY_ATTR { access.store(hn::MulAdd(hn::Sub(access.load(x + i), m), f, o), y + i); });
}

ChannelGradSums plane_grad_sums(const float* dy, const float* x, std::int64_t n, float mean) {
  ChannelGradSums total;
  const V m = hn::Set(D(), mean);
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    V grad = hn::Zero(D()), product = hn::Zero(D());
    // Where part of a vector is loaded, the rest of dy is 0 and adds nothing.
    for_vectors(std::min(kBlock, n - begin), [&](std::int64_t i, auto access) HWY_ATTR {
      const V g = access.load(dy + begin + i);
      grad = hn::Add(grad, g);
      product = hn::MulAdd(g, hn::Sub(access.load(x + begin + i), m), product);
    });
    total.grad += static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), grad)));
    total.product += static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), product)));
  }
  return total;
}

void grad_plane(const float* dy, const float* x, std::int64_t n, float mean, float factor, float shift, float slope,
                float* dx) {
  const V m = hn::Set(D(), mean), f = hn::Set(D(), factor), s = hn::Set(D(), shift), k = hn::Set(D(), slope);
  for_vectors(n, [&](std::int64_t i, auto access) HWY_ATTR {
    const V v = hn::NegMulAdd(hn::Sub(access.load(x + i), m), k, hn::Sub(access.load(dy + i), s));
    access.store(hn::Mul(v, f), dx + i);
  });
}

}  // namespace

internal::BatchNormLoops find_batch_norm() {
  return {&row_moments,   &normalise_rows,  &row_grad_sums,   &grad_rows,
          &plane_moments, &normalise_plane, &plane_grad_sums, &grad_plane};
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_batch_norm);

internal::BatchNormLoops internal::find_batch_norm_loops() { return HWY_DYNAMIC_DISPATCH(find_batch_norm)(); }

// Two groups of values and the squares around their means, put together as one.
void internal::ChannelMoments::add(const ChannelMoments& other) {
  if (other.count == 0) return;
  const double total = count + other.count;
  const double distance = other.mean - mean;
  mean += distance * (other.count / total);
  squares += other.squares + distance * distance * (count * other.count / total);
  count = total;
}

}  // namespace tutti::cpu
#endif

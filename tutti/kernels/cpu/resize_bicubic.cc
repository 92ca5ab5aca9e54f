#include <array>
#include <cstring>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/resize.h"

namespace tutti::cpu {
namespace {

using internal::ResizeMode;
using internal::ResizeSizes;

// Weights are looked up by the fraction of a pixel, as in TensorFlow, so that results are the same.
constexpr std::int64_t kTableSize = 1024;

// The cubic convolution kernel by distance: entry 2i at i / kTableSize, entry 2i+1 one pixel further away.
std::vector<float> cubic_table(double a) {
  std::vector<float> table(static_cast<std::size_t>((kTableSize + 1) * 2));
  for (std::int64_t i = 0; i <= kTableSize; ++i) {
    double x = static_cast<double>(i) / kTableSize;
    table[static_cast<std::size_t>(2 * i)] = static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
    x += 1;
    table[static_cast<std::size_t>(2 * i + 1)] = static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
  }
  return table;
}

struct CubicTap {
  std::array<std::int64_t, 4> index;
  std::array<float, 4> weight;
};

// Pixels outside of the image: those at its edge stand for them, or, with half-pixel centres, they weigh nothing.
std::vector<CubicTap> cubic_taps(const ResizeMode& mode, const std::vector<float>& table, std::int64_t in,
                                 std::int64_t out) {
  const float scale = mode.scale(in, out);
  std::vector<CubicTap> taps(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = mode.source(i, scale);
    const auto base = static_cast<std::int64_t>(std::floor(at));
    const std::int64_t offset = std::lrintf((at - static_cast<float>(base)) * kTableSize);
    const std::array<std::int64_t, 4> entry{offset * 2 + 1, offset * 2, (kTableSize - offset) * 2,
                                            (kTableSize - offset) * 2 + 1};
    CubicTap& tap = taps[static_cast<std::size_t>(i)];
    float sum = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int64_t wanted = base - 1 + static_cast<std::int64_t>(k);
      tap.index[k] = std::clamp<std::int64_t>(wanted, 0, in - 1);
      const bool counts = !mode.half_pixel_centers || tap.index[k] == wanted;
      tap.weight[k] = counts ? table[static_cast<std::size_t>(entry[k])] : 0.0f;
      sum += tap.weight[k];
    }
    if (mode.half_pixel_centers && std::abs(sum) >= 1000 * std::numeric_limits<float>::min()) {
      const float share = 1.0f / sum;
      for (float& weight : tap.weight) weight *= share;
    }
  }
  return taps;
}

// What both directions have in common.
class CubicKernel : public Kernel {
 public:
  explicit CubicKernel(const ResizeMode& mode)
      : mode_(mode), table_(cubic_table(mode.half_pixel_centers ? -0.5 : -0.75)) {}

 protected:
  struct Taps {
    std::vector<CubicTap> ys, xs;
  };
  Taps taps(const ResizeSizes& s) const {
    return {cubic_taps(mode_, table_, s.in_height, s.out_height), cubic_taps(mode_, table_, s.in_width, s.out_width)};
  }

 private:
  const ResizeMode mode_;
  const std::vector<float> table_;
};

class ResizeBicubic : public CubicKernel {
 public:
  using CubicKernel::CubicKernel;
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeBicubic>(mode));
  }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_sizes(ctx.input(0), ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, internal::allocate_resized(ctx, s));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Tensor images, widened(ctx, ctx.input(0), DType::kFloat));
    const Taps t = taps(s);
    // Where few columns of the source are looked at, only those are merged.
    const bool squeezed = 16 * s.out_width < s.in_width;
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 8 / s.out_row());
    parallel_for(ctx.team(), s.batch * s.out_height, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> column(static_cast<std::size_t>(s.in_row()));  // the four rows as one
      for (std::int64_t i = begin; i < end; ++i) {
        const float* image = images.data<float>() + i / s.out_height * s.in_height * s.in_row();
        const CubicTap& y = t.ys[static_cast<std::size_t>(i % s.out_height)];
        if (squeezed) {
          for (const CubicTap& x : t.xs) {
            for (const std::int64_t at : x.index) {
              merge_rows(image + at * s.channels, y, s.in_row(), s.channels, column.data() + at * s.channels);
            }
          }
        } else {
          merge_rows(image, y, s.in_row(), s.in_row(), column.data());
        }
        stretch_row(column.data(), t.xs, s.channels, out->data<float>() + i * s.out_row());
      }
    });
    return {};
  }

 private:
  // `count` columns of rows of `row`.
  static void merge_rows(const float* image, const CubicTap& tap, std::int64_t row, std::int64_t count, float* to) {
    const float* r0 = image + tap.index[0] * row;
    const float* r1 = image + tap.index[1] * row;
    const float* r2 = image + tap.index[2] * row;
    const float* r3 = image + tap.index[3] * row;
    for (std::int64_t k = 0; k < count; ++k) {
      to[k] = r0[k] * tap.weight[0] + r1[k] * tap.weight[1] + r2[k] * tap.weight[2] + r3[k] * tap.weight[3];
    }
  }
  static void stretch_row(const float* from, const std::vector<CubicTap>& xs, std::int64_t channels, float* to) {
    for (const CubicTap& tap : xs) {
      for (std::int64_t c = 0; c < channels; ++c) {
        *to++ = from[tap.index[0] * channels + c] * tap.weight[0] + from[tap.index[1] * channels + c] * tap.weight[1] +
                from[tap.index[2] * channels + c] * tap.weight[2] + from[tap.index[3] * channels + c] * tap.weight[3];
      }
    }
  }
};

class ResizeBicubicGrad : public CubicKernel {
 public:
  using CubicKernel::CubicKernel;
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeBicubicGrad>(mode));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& grads = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_grad_sizes(grads, ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, ctx.input(1).shape()));
    std::memset(out->raw(), 0, out->bytes());
    if (grads.num_elements() == 0) return {};
    const Taps t = taps(s);
    if (out->dtype() == DType::kDouble) {
      spread(grads.data<float>(), s, t, out->data<double>());
    } else {
      spread(grads.data<float>(), s, t, out->data<float>());
    }
    return {};
  }

 private:
  template <typename T>
  static void spread(const float* grads, const ResizeSizes& s, const Taps& t, T* to) {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      T* image = to + b * s.in_height * s.in_row();
      for (const CubicTap& y : t.ys) {
        for (const CubicTap& x : t.xs) {
          for (std::size_t i = 0; i < 16; ++i) {
            T* pixel = image + y.index[i / 4] * s.in_row() + x.index[i % 4] * s.channels;
            const auto wy = static_cast<T>(y.weight[i / 4]), wx = static_cast<T>(x.weight[i % 4]);
            for (std::int64_t c = 0; c < s.channels; ++c) pixel[c] += static_cast<T>(grads[c]) * wy * wx;
          }
          grads += s.channels;
        }
      }
    }
  }
};

}  // namespace

KernelFactory resize_bicubic_kernel() { return kernel_of<ResizeBicubic>(); }
KernelFactory resize_bicubic_grad_kernel() { return kernel_of<ResizeBicubicGrad>(); }

}  // namespace tutti::cpu

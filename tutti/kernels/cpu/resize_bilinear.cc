#include <algorithm>
#include <cstring>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/resize.h"

namespace tutti::cpu {
namespace {

using internal::LinearTap;
using internal::ResizeLoops;
using internal::ResizeMode;
using internal::ResizeSizes;

// Up to so many channels a pixel is one short vector, whose rest the next pixel overwrites.
constexpr std::int64_t kShortVector = 4;

// Stretches rows to the output's width.
class RowStretch {
 public:
  RowStretch(const ResizeMode& mode, const ResizeSizes& s)
      : loops_(internal::resize_loops()), taps_(linear_taps(mode, s.in_width, s.out_width)), channels_(s.channels) {
    if (channels_ > kShortVector) return;
    const auto fits = [&](const LinearTap& tap) {
      return std::max(tap.lower, tap.upper) * channels_ + kShortVector <= s.in_row() &&
             short_pixels_ * channels_ + kShortVector <= s.out_row();
    };
    while (short_pixels_ < std::ssize(taps_) && fits(taps_[static_cast<std::size_t>(short_pixels_)])) ++short_pixels_;
  }

  void stretch(const float* from, float* to) const {
    loops_.lerp_short(from, {taps_.data(), static_cast<std::size_t>(short_pixels_)}, channels_, to);
    for (std::size_t x = static_cast<std::size_t>(short_pixels_); x < taps_.size(); ++x) {
      const LinearTap& tap = taps_[x];
      loops_.blend(from + tap.lower * channels_, from + tap.upper * channels_, tap.share, channels_,
                   to + static_cast<std::int64_t>(x) * channels_);
    }
  }
  void blend(const float* a, const float* b, float share, std::int64_t n, float* to) const {
    loops_.blend(a, b, share, n, to);
  }

 private:
  const ResizeLoops loops_;
  const std::vector<LinearTap> taps_;
  const std::int64_t channels_;
  std::int64_t short_pixels_ = 0;  // the first of a row, as far as short vectors stay within it
};

// The rows of one thread: each source row is converted and stretched once for all output rows that lie by it.
class StretchedRows {
 public:
  StretchedRows(const Tensor& images, const ResizeSizes& s, const RowStretch& stretch)
      : images_(images),
        row_(s.in_row()),
        convert_(images.dtype() == DType::kFloat ? nullptr : find_convert(images.dtype(), DType::kFloat)),
        stretch_(stretch),
        source_(convert_ != nullptr ? static_cast<std::size_t>(row_) : 0) {
    for (Kept& kept : kept_) kept.values.resize(static_cast<std::size_t>(s.out_row()));
  }

  // Source row `index` of all images' rows. Valid until the call after the next.
  const float* get(std::int64_t index) {
    for (Kept& kept : kept_) {
      if (kept.index == index) {
        latest_ = &kept;
        return kept.values.data();
      }
    }
    Kept& kept = &kept_[0] == latest_ ? kept_[1] : kept_[0];
    kept.index = index;
    stretch_.stretch(source(index), kept.values.data());
    latest_ = &kept;
    return kept.values.data();
  }

 private:
  struct Kept {
    std::int64_t index = -1;
    std::vector<float> values;
  };
  const float* source(std::int64_t index) {
    const char* at =
        static_cast<const char*>(images_.raw()) + index * row_ * static_cast<std::int64_t>(dtype_size(images_.dtype()));
    if (convert_ == nullptr) return reinterpret_cast<const float*>(at);
    convert_(at, source_.data(), row_);
    return source_.data();
  }

  const Tensor& images_;
  const std::int64_t row_;
  const ConvertFn convert_;
  const RowStretch& stretch_;
  std::vector<float> source_;
  Kept kept_[2];
  const Kept* latest_ = nullptr;
};

class ResizeBilinear : public Kernel {
 public:
  explicit ResizeBilinear(const ResizeMode& mode) : mode_(mode) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeBilinear>(mode));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& images = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_sizes(images, ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, internal::allocate_resized(ctx, s));
    if (out->num_elements() == 0) return {};
    const std::vector<LinearTap> taps = linear_taps(mode_, s.in_height, s.out_height);
    const RowStretch stretch(mode_, s);
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 2 / s.out_row());
    parallel_for(ctx.team(), s.batch * s.out_height, grain, [&](std::int64_t begin, std::int64_t end) {
      StretchedRows rows(images, s, stretch);
      for (std::int64_t i = begin; i < end; ++i) {
        const LinearTap& tap = taps[static_cast<std::size_t>(i % s.out_height)];
        const std::int64_t first = i / s.out_height * s.in_height;
        float* to = out->data<float>() + i * s.out_row();
        const float* top = rows.get(first + tap.lower);
        if (tap.upper == tap.lower) {
          std::memcpy(to, top, static_cast<std::size_t>(s.out_row()) * sizeof(float));
        } else {
          stretch.blend(top, rows.get(first + tap.upper), tap.share, s.out_row(), to);
        }
      }
    });
    return {};
  }

 private:
  const ResizeMode mode_;
};

// Adds to `to`, an image in T, what the rows of one image's gradient say.
template <typename T>
void spread_image(const float* grads, const ResizeSizes& s, const std::vector<LinearTap>& ys,
                  const std::vector<LinearTap>& xs, T* to) {
  const std::int64_t c = s.channels;
  for (const LinearTap& y : ys) {
    T* top = to + y.lower * s.in_row();
    T* bottom = to + y.upper * s.in_row();
    for (const LinearTap& x : xs) {
      const std::int64_t left = x.lower * c, right = x.upper * c;
      // In this order, and in float whatever T is: as TensorFlow rounds.
      for (std::int64_t k = 0; k < c; ++k) {
        const float above = grads[k] * (1 - y.share), below = grads[k] * y.share;
        top[left + k] += static_cast<T>(above * (1 - x.share));
        top[right + k] += static_cast<T>(above * x.share);
        bottom[left + k] += static_cast<T>(below * (1 - x.share));
        bottom[right + k] += static_cast<T>(below * x.share);
      }
      grads += c;
    }
  }
}

class ResizeBilinearGrad : public Kernel {
 public:
  explicit ResizeBilinearGrad(const ResizeMode& mode) : mode_(mode) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeBilinearGrad>(mode));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& grads = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_grad_sizes(grads, ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, ctx.input(1).shape()));
    const DType wide = out->dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
    std::memset(to.raw(), 0, to.bytes());
    if (grads.num_elements() > 0) {
      const std::vector<LinearTap> ys = linear_taps(mode_, s.in_height, s.out_height);
      const std::vector<LinearTap> xs = linear_taps(mode_, s.in_width, s.out_width);
      const std::int64_t from = s.out_height * s.out_row(), into = s.in_height * s.in_row();
      parallel_for(ctx.team(), s.batch, std::max<std::int64_t>(1, kElementGrain / 8 / from),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t b = begin; b < end; ++b) {
                       const float* at = grads.data<float>() + b * from;
                       if (wide == DType::kDouble) {
                         spread_image(at, s, ys, xs, to.data<double>() + b * into);
                       } else {
                         spread_image(at, s, ys, xs, to.data<float>() + b * into);
                       }
                     }
                   });
    }
    narrow_into(to, *out);
    return {};
  }

 private:
  const ResizeMode mode_;
};

}  // namespace

KernelFactory resize_bilinear_kernel() { return kernel_of<ResizeBilinear>(); }
KernelFactory resize_bilinear_grad_kernel() { return kernel_of<ResizeBilinearGrad>(); }

}  // namespace tutti::cpu

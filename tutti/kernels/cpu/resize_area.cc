#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/resize.h"

namespace tutti::cpu {
namespace {

using internal::ResizeMode;
using internal::ResizeSizes;

// The source pixels under one output pixel, and how much of each.
struct AreaSpan {
  std::int64_t begin = 0, end = 0;
  float low = 0, high = 0;  // the edges, in source pixels

  float covered(std::int64_t i, float scale) const {
    const auto left = static_cast<float>(i), right = static_cast<float>(i + 1);
    if (left < low) return right > high ? scale : right - low;
    return right > high ? high - left : 1.0f;
  }
};

std::vector<AreaSpan> area_spans(float scale, std::int64_t out) {
  std::vector<AreaSpan> spans(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    AreaSpan& span = spans[static_cast<std::size_t>(i)];
    span.low = static_cast<float>(i) * scale;
    span.high = static_cast<float>(i + 1) * scale;
    span.begin = static_cast<std::int64_t>(std::floor(span.low));
    span.end = static_cast<std::int64_t>(std::ceil(span.high));
  }
  return spans;
}

class ResizeArea : public Kernel {
 public:
  explicit ResizeArea(const KernelInit& init) { mode_.align_corners = init.attr<bool>("align_corners"); }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_sizes(ctx.input(0), ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, internal::allocate_resized(ctx, s));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Tensor images, widened(ctx, ctx.input(0), DType::kFloat));
    const float scale_y = mode_.scale(s.in_height, s.out_height), scale_x = mode_.scale(s.in_width, s.out_width);
    const std::vector<AreaSpan> ys = area_spans(scale_y, s.out_height), xs = area_spans(scale_x, s.out_width);
    std::int64_t rows = 0;
    for (const AreaSpan& y : ys) rows += y.end - y.begin;
    TUTTI_RETURN_IF_ERROR(internal::check_row_work(s, rows));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 8 / s.out_row());
    parallel_for(ctx.team(), s.batch * s.out_height, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> sums(static_cast<std::size_t>(s.in_row()));
      for (std::int64_t i = begin; i < end; ++i) {
        const float* image = images.data<float>() + i / s.out_height * s.in_height * s.in_row();
        sum_rows(image, ys[static_cast<std::size_t>(i % s.out_height)], scale_y, s, sums);
        average(sums.data(), xs, scale_x, 1.0f / (scale_y * scale_x), s, out->data<float>() + i * s.out_row());
      }
    });
    return {};
  }

 private:
  static void sum_rows(const float* image, const AreaSpan& span, float scale, const ResizeSizes& s,
                       std::vector<float>& sums) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::int64_t y = span.begin; y < span.end; ++y) {
      const float* row = image + std::clamp<std::int64_t>(y, 0, s.in_height - 1) * s.in_row();
      const float weight = span.covered(y, scale);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[k] * weight;
    }
  }
  static void average(const float* sums, const std::vector<AreaSpan>& xs, float scale, float share,
                      const ResizeSizes& s, float* to) {
    for (const AreaSpan& span : xs) {
      std::fill_n(to, s.channels, 0.0f);
      for (std::int64_t x = span.begin; x < span.end; ++x) {
        const float* pixel = sums + std::clamp<std::int64_t>(x, 0, s.in_width - 1) * s.channels;
        const float weight = span.covered(x, scale);
        for (std::int64_t c = 0; c < s.channels; ++c) to[c] += pixel[c] * weight;
      }
      for (std::int64_t c = 0; c < s.channels; ++c) to[c] *= share;
      to += s.channels;
    }
  }

  ResizeMode mode_;
};

}  // namespace

KernelFactory resize_area_kernel() { return kernel_of<ResizeArea>(); }

}  // namespace tutti::cpu

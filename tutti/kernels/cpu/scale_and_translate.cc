#include <cstring>
#include <numbers>
#include <string>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/resize.h"

namespace tutti::cpu {
namespace {

// A function of the distance, zero beyond the radius.
struct Filter {
  float radius = 0;
  float (*weight)(float distance) = nullptr;
};

template <int kRadius>
float lanczos(float x) {
  constexpr auto kPi = std::numbers::pi_v<float>;
  if (x > kRadius) return 0;
  if (x <= 1e-3f) return 1;
  return kRadius * std::sin(kPi * x) * std::sin(kPi * x / kRadius) / (kPi * kPi * x * x);
}

float gaussian(float x) {
  constexpr float kRadius = 1.5f, kSigma = kRadius / 3;
  return x >= kRadius ? 0 : std::exp(-x * x / (2 * kSigma * kSigma));
}

float box(float x) { return x < 0.5f ? 1.0f : (x == 0.5f ? 0.5f : 0.0f); }
float triangle(float x) { return x < 1 ? 1 - x : 0; }

float keys_cubic(float x) {
  if (x >= 2) return 0;
  return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : ((1.5f * x - 2.5f) * x) * x + 1;
}

float mitchell_cubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0f / 18.0f) * x + 2) * x - 10.0f / 3.0f) * x + 16.0f / 9.0f;
  return (((7.0f / 6.0f) * x - 2) * x) * x + 8.0f / 9.0f;
}

Result<Filter> filter_named(const std::string& name) {
  if (name == "lanczos1") return Filter{1, &lanczos<1>};
  if (name == "lanczos3") return Filter{3, &lanczos<3>};
  if (name == "lanczos5") return Filter{5, &lanczos<5>};
  if (name == "gaussian") return Filter{1.5f, &gaussian};
  if (name == "box") return Filter{1, &box};
  if (name == "triangle") return Filter{1, &triangle};
  if (name == "keyscubic") return Filter{2, &keys_cubic};
  if (name == "mitchellcubic") return Filter{2, &mitchell_cubic};
  return invalid_argument("Unrecognized kernel type: ", printable(name));
}

// The source pixels of one output pixel and their weights.
struct Span {
  std::int64_t begin = 0;
  std::vector<float> weights;
};

std::vector<Span> spans_of(const Filter& filter, std::int64_t out, std::int64_t in, float scale, float translation,
                           bool antialias) {
  const float inverse = 1.0f / scale;
  const float shift = -inverse * translation;
  const float stretch = antialias ? std::max(inverse, 1.0f) : 1.0f;
  const float reach = filter.radius * stretch;
  // From 2^24 on floats are further apart than pixels, so that a side's end is kept to in integers.
  const auto pixel = [in](float whole) {
    return std::min(static_cast<std::int64_t>(std::clamp(whole, 0.0f, static_cast<float>(in))), in - 1);
  };
  std::vector<Span> spans(static_cast<std::size_t>(out));
  for (std::int64_t x = 0; x < out; ++x) {
    const float at = (static_cast<float>(x) + 0.5f) * inverse + shift;
    if (!(at >= 0 && at <= static_cast<float>(in))) continue;
    Span& span = spans[static_cast<std::size_t>(x)];
    span.begin = pixel(std::ceil(at - reach - 0.5f));
    const std::int64_t end = pixel(std::floor(at + reach - 0.5f)) + 1;
    float sum = 0;
    for (std::int64_t i = span.begin; i < end; ++i) {
      span.weights.push_back(filter.weight(std::abs((static_cast<float>(i) + 0.5f - at) / stretch)));
      sum += span.weights.back();
    }
    if (std::abs(sum) >= 1000 * std::numeric_limits<float>::min()) {
      for (float& weight : span.weights) weight /= sum;
    } else {
      span.weights.clear();
    }
  }
  return spans;
}

class ScaleAndTranslate : public Kernel {
 public:
  ScaleAndTranslate(const Filter& filter, bool antialias, bool backward)
      : filter_(filter), antialias_(antialias), backward_(backward) {}

  Status compute(KernelContext& ctx) override { return backward_ ? differentiate(ctx) : resample(ctx); }

 private:
  struct Spans {
    std::vector<Span> ys, xs;
  };

  static Status read_pair(const Tensor& tensor, std::string_view name, float* pair) {
    if (tensor.rank() != 1 || tensor.dim(0) != 2) {
      return invalid_argument(name, " must be a vector of 2, got shape ", tensor.shape());
    }
    std::copy_n(tensor.data<float>(), 2, pair);
    return {};
  }

  static Status check_pairs(KernelContext& ctx) {
    float pair[2];
    TUTTI_RETURN_IF_ERROR(read_pair(ctx.input(2), "scale", pair));
    return read_pair(ctx.input(3), "translation", pair);
  }

  Result<Spans> make_spans(const internal::ResizeSizes& s, const Tensor& scale, const Tensor& translation) const {
    float by[2], shift[2];
    TUTTI_RETURN_IF_ERROR(read_pair(scale, "scale", by));
    TUTTI_RETURN_IF_ERROR(read_pair(translation, "translation", shift));
    if (!(by[0] > 0 && by[1] > 0)) {
      return invalid_argument("scale must be greater than zero, got [", by[0], ",", by[1], "]");
    }
    return Spans{spans_of(filter_, s.out_height, s.in_height, by[0], shift[0], antialias_),
                 spans_of(filter_, s.out_width, s.in_width, by[1], shift[1], antialias_)};
  }

  static std::int64_t rows_of(const std::vector<Span>& ys) {
    std::int64_t rows = 0;
    for (const Span& y : ys) rows += std::ssize(y.weights) + 1;  // one to begin with
    return rows;
  }

  Status resample(KernelContext& ctx) const {
    TUTTI_ASSIGN_OR_RETURN(const auto s, internal::resize_sizes(ctx.input(0), ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, internal::allocate_resized(ctx, s));
    if (out->num_elements() == 0) return check_pairs(ctx);
    TUTTI_ASSIGN_OR_RETURN(const Spans spans, make_spans(s, ctx.input(2), ctx.input(3)));
    TUTTI_RETURN_IF_ERROR(internal::check_row_work(s, rows_of(spans.ys)));
    TUTTI_ASSIGN_OR_RETURN(const Tensor images, widened(ctx, ctx.input(0), DType::kFloat));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 16 / s.out_row());
    parallel_for(ctx.team(), s.batch * s.out_height, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> sums(static_cast<std::size_t>(s.in_row()));
      for (std::int64_t i = begin; i < end; ++i) {
        const Span& y = spans.ys[static_cast<std::size_t>(i % s.out_height)];
        std::fill(sums.begin(), sums.end(), 0.0f);
        const float* row = images.data<float>() + (i / s.out_height * s.in_height + y.begin) * s.in_row();
        for (const float weight : y.weights) {
          for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[k] * weight;
          row += s.in_row();
        }
        gather_row(sums.data(), spans.xs, s.channels, out->data<float>() + i * s.out_row());
      }
    });
    return {};
  }

  static void gather_row(const float* sums, const std::vector<Span>& xs, std::int64_t channels, float* to) {
    for (const Span& x : xs) {
      std::fill_n(to, channels, 0.0f);
      const float* pixel = sums + x.begin * channels;
      for (const float weight : x.weights) {
        for (std::int64_t c = 0; c < channels; ++c) to[c] += pixel[c] * weight;
        pixel += channels;
      }
      to += channels;
    }
  }

  Status differentiate(KernelContext& ctx) const {
    const Tensor& grads = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const auto s, internal::resize_grad_sizes(grads, ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, ctx.input(1).shape()));
    std::memset(out->raw(), 0, out->bytes());
    if (grads.num_elements() == 0 || out->num_elements() == 0) return check_pairs(ctx);
    TUTTI_ASSIGN_OR_RETURN(const Spans spans, make_spans(s, ctx.input(2), ctx.input(3)));
    TUTTI_RETURN_IF_ERROR(internal::check_row_work(s, rows_of(spans.ys)));
    std::vector<float> spread(static_cast<std::size_t>(s.in_row()));
    for (std::int64_t i = 0; i < s.batch * s.out_height; ++i) {
      const Span& y = spans.ys[static_cast<std::size_t>(i % s.out_height)];
      std::fill(spread.begin(), spread.end(), 0.0f);
      spread_row(grads.data<float>() + i * s.out_row(), spans.xs, s.channels, spread.data());
      float* row = out->data<float>() + (i / s.out_height * s.in_height + y.begin) * s.in_row();
      for (const float weight : y.weights) {
        for (std::size_t k = 0; k < spread.size(); ++k) row[k] += spread[k] * weight;
        row += s.in_row();
      }
    }
    return {};
  }

  static void spread_row(const float* grads, const std::vector<Span>& xs, std::int64_t channels, float* to) {
    for (const Span& x : xs) {
      float* pixel = to + x.begin * channels;
      for (const float weight : x.weights) {
        for (std::int64_t c = 0; c < channels; ++c) pixel[c] += grads[c] * weight;
        pixel += channels;
      }
      grads += channels;
    }
  }

  const Filter filter_;
  const bool antialias_;
  const bool backward_;
};

KernelFactory scale_factory(bool backward) {
  return [backward](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(const Filter filter, filter_named(init.attr<std::string>("kernel_type")));
    return std::unique_ptr<Kernel>(std::make_unique<ScaleAndTranslate>(filter, init.attr<bool>("antialias"), backward));
  };
}

}  // namespace

KernelFactory scale_and_translate_kernel() { return scale_factory(false); }
KernelFactory scale_and_translate_grad_kernel() { return scale_factory(true); }

}  // namespace tutti::cpu

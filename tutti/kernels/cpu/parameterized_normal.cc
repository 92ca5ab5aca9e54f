// Normal numbers between bounds that are given.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/random_numbers.h"
#include "tutti/kernels/cpu/random_laws.h"

namespace tutti::cpu {

namespace {

constexpr int kMaxIterations = 1000;
// Normal numbers are tried until one fits when at least this many standard deviations are inside the bounds.
constexpr double kInsideForNormal = 1.3;
// With the same parameters everywhere, numbers are drawn in batches of this many.
constexpr std::int64_t kBatch = 100;

Status no_number() { return internal_error("TruncatedNormal rejection sampler failed to accept a sample."); }

// A half number of which every operation is rounded, as TensorFlow computes with them. What is accepted depends on it.
class RoundedHalf {
 public:
  explicit RoundedHalf(Half value) : value_(static_cast<float>(value)) {}
  explicit RoundedHalf(double value) : RoundedHalf(Half(static_cast<float>(value))) {}
  explicit operator float() const { return value_; }
  explicit operator double() const { return value_; }
  explicit operator Half() const { return Half(value_); }
  RoundedHalf operator-() const { return RoundedHalf(-value_); }
  friend RoundedHalf operator+(RoundedHalf a, RoundedHalf b) { return RoundedHalf(a.value_ + b.value_); }
  friend RoundedHalf operator-(RoundedHalf a, RoundedHalf b) { return RoundedHalf(a.value_ - b.value_); }
  friend RoundedHalf operator*(RoundedHalf a, RoundedHalf b) { return RoundedHalf(a.value_ * b.value_); }
  friend RoundedHalf operator/(RoundedHalf a, RoundedHalf b) { return RoundedHalf(a.value_ / b.value_); }
  friend auto operator<=>(RoundedHalf, RoundedHalf) = default;
  friend RoundedHalf sqrt(RoundedHalf x) { return RoundedHalf(std::sqrt(x.value_)); }
  friend RoundedHalf exp(RoundedHalf x) { return RoundedHalf(std::exp(x.value_)); }
  friend RoundedHalf log(RoundedHalf x) { return RoundedHalf(std::log(x.value_)); }
  friend bool isfinite(RoundedHalf x) { return std::isfinite(x.value_); }

 private:
  float value_;
};

using std::exp, std::isfinite, std::log, std::sqrt;  // beside those of RoundedHalf

// Draws `count` numbers into `to`. T: what is computed with; S: what is drawn and stored.
template <typename T, typename S>
class BoundedNormal {
 public:
  static Result<BoundedNormal> create(T mean, T stddev, T low, T high) {
    if (!(stddev > T(0)) || !(low < high) || (!isfinite(low) && !isfinite(high))) {
      const auto number = [](T value) { return static_cast<double>(value); };
      return invalid_argument("Invalid parameters: mean ", number(mean), ", stddev ", number(stddev), ", bounds ",
                              number(low), " and ", number(high));
    }
    // An only bound becomes the lower one; two on one side of the mean become positive.
    if ((!isfinite(low) && low < T(0)) || high < mean) {
      std::swap(low, high);
      stddev = -stddev;
    }
    return BoundedNormal(mean, stddev, (low - mean) / stddev, (high - mean) / stddev);
  }

  Status draw(Philox& generator, S* to, std::int64_t count) {
    to_ = to;
    end_ = to + count;
    tries_ = 0;
    const T root = sqrt(low_ * low_ + T(4));
    const T cutoff = T(2) * exp(T(0.5) + (low_ * (low_ - root)) / T(4)) / (low_ + root);
    const T inside(kInsideForNormal);
    if ((low_ < -inside && high_ >= T(0)) || (high_ > inside && low_ <= T(0))) return from_normal(generator);
    return high_ - low_ < cutoff ? from_uniform(generator) : from_exponential(generator, (low_ + root) / T(2));
  }

 private:
  BoundedNormal(T mean, T stddev, T low, T high) : mean_(mean), stddev_(stddev), low_(low), high_(high) {}

  // True: all are drawn.
  bool accept(T z) {
    *to_++ = static_cast<S>(z * stddev_ + mean_);
    tries_ = 0;
    return to_ == end_;
  }

  Status from_normal(Philox& generator) {
    while (to_ < end_) {
      for (const S drawn : Normal<S>()(generator.next())) {
        const T z(drawn);
        if (z >= low_ && z <= high_) {
          if (accept(z)) return {};
        } else if (++tries_ > kMaxIterations) {
          return no_number();
        }
      }
    }
    return {};
  }

  Status from_uniform(Philox& generator) {
    const T plus = low_ < T(0) ? T(0) : low_ * low_;
    while (to_ < end_) {
      const auto places = Uniform<S>()(generator.next());
      const auto chances = Uniform<S>()(generator.next());
      for (std::size_t i = 0; i < places.size(); ++i) {
        const T z = T(places[i]) * (high_ - low_) + low_;
        if (T(chances[i]) <= exp((plus - z * z) / T(2))) {
          if (accept(z)) return {};
        } else if (++tries_ >= kMaxIterations) {
          return no_number();
        }
      }
    }
    return {};
  }

  Status from_exponential(Philox& generator, T alpha) {
    while (to_ < end_) {
      const auto numbers = Uniform<S>()(generator.next());
      for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
        const T z = -log(T(numbers[i])) / alpha + low_;
        const T x = low_ < alpha ? alpha - z : low_ - alpha;
        if (T(numbers[i + 1]) <= exp(-x * x / T(2)) && z < high_) {
          if (accept(z)) return {};
        } else if (++tries_ >= kMaxIterations) {
          return no_number();
        }
      }
    }
    return {};
  }

  const T mean_, stddev_, low_, high_;
  S* to_ = nullptr;
  S* end_ = nullptr;
  int tries_ = 0;
};

class ParameterizedTruncatedNormal : public Kernel {
 public:
  explicit ParameterizedTruncatedNormal(const KernelInit& init) : generator_(init) {}

  Status compute(KernelContext& ctx) override {
    if (ctx.input(0).rank() != 1) return invalid_argument("shape should be a vector, got ", ctx.input(0).shape());
    if (ctx.input(0).num_elements() == 0) return invalid_argument("shape should not be empty");
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const std::int64_t total = shape.num_elements();
    std::int64_t batches = shape.dim(0), samples = batches > 0 ? total / batches : 0;
    TUTTI_ASSIGN_OR_RETURN(const bool same, all_same(ctx, batches));
    if (total == 0) return {};  // batches of nothing may be of any number
    if (same) {
      batches = (total + kBatch - 1) / kBatch;
      samples = kBatch;
    }
    Philox generator = generator_.reserve(static_cast<std::uint64_t>(batches) * 2 * kMaxIterations *
                                          static_cast<std::uint64_t>(samples + 3) / 4);
    for (std::int64_t b = 0; b < batches; ++b) {
      const std::int64_t first = b * samples, count = std::min(samples, total - first);
      if (count > 0) TUTTI_RETURN_IF_ERROR(draw_batch(ctx, b, generator, *out, first, count));
    }
    return {};
  }

 private:
  // Whether there is one of each parameter; an error when there are neither one nor as many as batches.
  static Result<bool> all_same(KernelContext& ctx, std::int64_t batches) {
    bool same = true;
    for (int i = 1; i <= 4; ++i) {
      const Tensor& parameter = ctx.input(i);
      if (parameter.rank() > 1) return invalid_argument("parameters are scalars or vectors, got ", parameter.shape());
      same = same && (parameter.rank() == 0 || (i <= 2 && parameter.dim(0) == 1));
    }
    for (int i = 1; !same && i <= 4; ++i) {
      const Tensor& parameter = ctx.input(i);
      if (parameter.rank() == 0 || parameter.dim(0) == 1 || parameter.dim(0) == batches) continue;
      return invalid_argument("parameters should have length 1 or shape[0], ", batches, ", got ", parameter.shape());
    }
    return same;
  }

  template <typename T, typename S>
  static Status draw_as(KernelContext& ctx, std::int64_t batch, Philox& generator, S* to, std::int64_t count) {
    const auto value = [&](int i) {
      const Tensor& parameter = ctx.input(i);
      return T(parameter.data<S>()[parameter.num_elements() == 1 ? 0 : batch]);
    };
    using Law = BoundedNormal<T, S>;
    TUTTI_ASSIGN_OR_RETURN(Law law, Law::create(value(1), value(2), value(3), value(4)));
    return law.draw(generator, to, count);
  }

  static Status draw_batch(KernelContext& ctx, std::int64_t batch, Philox& generator, Tensor& out, std::int64_t first,
                           std::int64_t count) {
    switch (out.dtype()) {
      case DType::kFloat:
        return draw_as<float, float>(ctx, batch, generator, out.data<float>() + first, count);
      case DType::kDouble:
        return draw_as<double, double>(ctx, batch, generator, out.data<double>() + first, count);
      case DType::kHalf:
        return draw_as<RoundedHalf, Half>(ctx, batch, generator, out.data<Half>() + first, count);
      default:
        return unimplemented("no normal numbers of ", dtype_name(out.dtype()));
    }
  }

  SharedPhilox generator_;
};

}  // namespace

KernelFactory parameterized_truncated_normal_kernel() { return kernel_of<ParameterizedTruncatedNormal>(); }

}  // namespace tutti::cpu

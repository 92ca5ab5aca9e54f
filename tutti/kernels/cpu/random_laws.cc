#include "tutti/kernels/cpu/random_laws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/random_numbers.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

namespace {

// --- Multinomial. ---

Status check_multinomial(const Tensor& logits, const Tensor& count) {
  if (logits.rank() != 2) return invalid_argument("logits should be a matrix, got shape: ", logits.shape());
  if (count.rank() != 0) return invalid_argument("num_samples should be a scalar, got shape: ", count.shape());
  if (count.scalar<std::int32_t>() < 0) {
    return invalid_argument("num_samples should be nonnegative, got ", count.scalar<std::int32_t>());
  }
  if (logits.dim(1) <= 0) return invalid_argument("num_classes should be positive, got ", logits.dim(1));
  return {};
}

template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

// Running sums of exp(logit - largest); what is not finite has no share.
template <typename T>
void cumulate_classes(const T* logits, std::vector<double>* sums) {
  double largest = std::numeric_limits<double>::lowest(), total = 0;
  for (std::size_t j = 0; j < sums->size(); ++j) {
    if (std::isfinite(as_double(logits[j]))) largest = std::max(largest, as_double(logits[j]));
  }
  for (std::size_t j = 0; j < sums->size(); ++j) {
    if (std::isfinite(as_double(logits[j]))) total += std::exp(as_double(logits[j]) - largest);
    (*sums)[j] = total;
  }
}

Status draw_classes(const Tensor& logits, const Philox& generator, Tensor& out) {
  const std::int64_t batch = logits.dim(0), classes = logits.dim(1), samples = out.dim(1);
  PhiloxWords words(generator);
  std::vector<double> sums(static_cast<std::size_t>(classes));
  std::vector<std::int64_t> picks(static_cast<std::size_t>(samples));
  for (std::int64_t b = 0; b < batch; ++b) {
    TUTTI_RETURN_IF_ERROR(with_real(
        logits.dtype(),
        [&]<typename T>(T) -> Status {
          cumulate_classes(logits.data<T>() + b * classes, &sums);
          return {};
        },
        [&]() -> Status { return unimplemented("no classes by ", dtype_name(logits.dtype())); }));
    for (std::int64_t& pick : picks) {
      const std::uint32_t high = words.next();
      const double wanted = unit_double(high, words.next()) * sums.back();
      pick = std::upper_bound(sums.begin(), sums.end(), wanted) - sums.begin();
    }
    Tensor row = out.slice(b, b + 1);
    write_indices(picks, row);
  }
  return {};
}

Result<Tensor*> allocate_classes(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_multinomial(ctx.input(0), ctx.input(1)));
  const std::int64_t dims[] = {ctx.input(0).dim(0), ctx.input(1).scalar<std::int32_t>()};
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  return ctx.allocate_output(0, shape);
}

class Multinomial : public Kernel {
 public:
  explicit Multinomial(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_classes(ctx));
    if (out->num_elements() == 0) return {};
    // Two words a number, rounded up to whole blocks.
    const std::int64_t reserved = out->dim(0) * ((out->dim(1) + 3) / 4 * 4) * 2;
    return draw_classes(ctx.input(0), generator_.reserve_outputs(reserved), *out);
  }

 private:
  SharedPhilox generator_;
};

Status stateless_multinomial(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const Philox generator, philox_of_seed(ctx.input(2)));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_classes(ctx));
  return out->num_elements() == 0 ? Status() : draw_classes(ctx.input(0), generator, *out);
}

// --- What gamma and Poisson numbers share. ---

// Numbers of one distribution, block by block, the last of a block first.
template <typename Distribution>
class Backwards {
 public:
  explicit Backwards(Philox& generator) : generator_(generator) {}
  auto next() {
    if (left_ == 0) {
      group_ = Distribution()(generator_.next());
      left_ = Distribution::kGroup;
    }
    return group_[static_cast<std::size_t>(--left_)];
  }

 private:
  Philox& generator_;
  typename Distribution::Group group_{};
  int left_ = 0;
};

constexpr std::int64_t kNumbersPerThread = 1024;

// Calls draw(parameter index, generator, place in out) for every number of `out`: rows of one number for each
// parameter. Parameter by parameter the numbers have their own stretches of the sequence.
template <typename Draw>
void draw_each(Team& team, const Philox& generator, std::int64_t parameters, std::int64_t total, const Draw& draw) {
  const std::int64_t samples = total / parameters;
  parallel_for(team, total, kNumbersPerThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t parameter = i / samples, sample = i % samples;
      Philox local = generator;
      local.skip(kBlocksPerOutput * static_cast<std::uint64_t>(i));
      draw(parameter, local, sample * parameters + parameter);
    }
  });
}

// The output of shape `shape` + parameters.shape.
Result<Tensor*> allocate_for_each(KernelContext& ctx, const Tensor& parameters) {
  TUTTI_ASSIGN_OR_RETURN(const Shape prefix, read_shape(ctx.input(0), "shape"));
  DimList dims;
  if (prefix.rank() + parameters.rank() > kMaxRank) return invalid_argument("the result has too many dimensions");
  for (const std::int64_t size : prefix.dims()) dims.push_back(size);
  for (const std::int64_t size : parameters.shape().dims()) dims.push_back(size);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  return out;
}

// The output of shape `shape`, which must end with that of the parameters.
Result<Tensor*> allocate_whole(KernelContext& ctx, const Tensor& parameters) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (shape.num_elements() == 0) return out;
  bool fits = shape.rank() >= parameters.rank();
  for (int d = 0; fits && d < parameters.rank(); ++d) {
    fits = shape.dim(shape.rank() - parameters.rank() + d) == parameters.dim(d);
  }
  if (!fits) return invalid_argument("shape ", shape, " must end with that of the parameters, ", parameters.shape());
  return out;
}

// --- Gamma: Marsaglia and Tsang, "A simple method for generating gamma variables". ---

double draw_gamma(double alpha, Philox& generator) {
  Backwards<Normal<double>> normal(generator);
  Backwards<Uniform<double>> uniform(generator);
  if (alpha == 1.0) return -std::log1p(-uniform.next());  // the exponential distribution
  // Below 1 a number for alpha + 1 is drawn and scaled.
  const bool small = alpha < 1;
  const double d = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  if (!(d > 0)) return std::numeric_limits<double>::quiet_NaN();
  while (true) {
    const double x = normal.next();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniform.next();
    // The first test avoids the logarithms of most draws.
    if (u < 1 - 0.0331 * (x * x) * (x * x) || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) {
      return small ? d * v * std::pow(uniform.next(), 1 / alpha) : d * v;
    }
  }
}

Status draw_gammas(KernelContext& ctx, const Tensor& alpha, const Philox& generator, Tensor& out) {
  if (out.num_elements() == 0) return {};
  return with_real(
      alpha.dtype(),
      [&]<typename T>(T) -> Status {
        if constexpr (std::is_integral_v<T>) {
          return unimplemented("no gamma numbers of integers");
        } else {
          const T* alphas = alpha.data<T>();
          T* to = out.data<T>();
          draw_each(ctx.team(), generator, alpha.num_elements(), out.num_elements(),
                    [&](std::int64_t i, Philox& local, std::int64_t place) {
                      const double number = draw_gamma(as_double(alphas[i]), local);
                      if constexpr (std::is_same_v<T, double>)
                        to[place] = number;
                      else
                        to[place] = static_cast<T>(static_cast<float>(number));
                    });
          return {};
        }
      },
      [&]() -> Status { return unimplemented("no gamma numbers of ", dtype_name(alpha.dtype())); });
}

class RandomGamma : public Kernel {
 public:
  explicit RandomGamma(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_for_each(ctx, ctx.input(1)));
    return draw_gammas(ctx, ctx.input(1), generator_.reserve_outputs(out->num_elements()), *out);
  }

 private:
  SharedPhilox generator_;
};

template <PhiloxSource kSource>
Status stateless_gamma(KernelContext& ctx) {
  const Tensor& alpha = ctx.input(first_parameter(kSource));
  TUTTI_ASSIGN_OR_RETURN(const Philox generator, philox_of_inputs(ctx, kSource));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_whole(ctx, alpha));
  return draw_gammas(ctx, alpha, generator, *out);
}

// --- Poisson: Knuth's products below a rate of 10, above it Hörmann's "transformed rejection". ---

double draw_small_poisson(double rate, Backwards<Uniform<double>>& uniform) {
  const double limit = std::exp(-rate);
  double product = 1, count = 0;
  while (true) {
    product *= uniform.next();
    if (product <= limit) return count;
    count += 1;
  }
}

double draw_large_poisson(double rate, Backwards<Uniform<double>>& uniform) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  while (true) {
    const double u = uniform.next() - 0.5, v = uniform.next();
    const double shifted = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > std::numeric_limits<double>::max()) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    const double s = std::log(v * inverse_alpha / (a / (shifted * shifted) + b));
    if (s <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

double draw_poisson(double rate, Philox& generator) {
  if (!std::isfinite(rate)) return std::numeric_limits<double>::quiet_NaN();
  Backwards<Uniform<double>> uniform(generator);
  return rate < 10 ? draw_small_poisson(rate, uniform) : draw_large_poisson(rate, uniform);
}

template <typename T>
T stored_count(double count) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(count)) return std::numeric_limits<T>::lowest();
    const double limit = static_cast<double>(std::numeric_limits<T>::max());
    return count >= limit ? std::numeric_limits<T>::max() : static_cast<T>(count);
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return static_cast<T>(static_cast<float>(count));
  } else {
    return static_cast<T>(count);
  }
}

double rate_at(const Tensor& rates, std::int64_t i) {
  return with_real(
      rates.dtype(), [&]<typename T>(T) -> double { return as_double(rates.data<T>()[i]); }, [] { return 0.0; });
}

Status draw_poissons(KernelContext& ctx, const Tensor& rates, const Philox& generator, Tensor& out) {
  if (out.num_elements() == 0) return {};
  return with_real(
      out.dtype(),
      [&]<typename T>(T) -> Status {
        T* to = out.data<T>();
        draw_each(ctx.team(), generator, rates.num_elements(), out.num_elements(),
                  [&](std::int64_t i, Philox& local, std::int64_t place) {
                    to[place] = stored_count<T>(draw_poisson(rate_at(rates, i), local));
                  });
        return {};
      },
      [&]() -> Status { return unimplemented("no Poisson numbers of ", dtype_name(out.dtype())); });
}

class RandomPoisson : public Kernel {
 public:
  explicit RandomPoisson(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_for_each(ctx, ctx.input(1)));
    return draw_poissons(ctx, ctx.input(1), generator_.reserve_outputs(out->num_elements()), *out);
  }

 private:
  SharedPhilox generator_;
};

Status stateless_poisson(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const Philox generator, philox_of_seed(ctx.input(1)));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_whole(ctx, ctx.input(2)));
  return draw_poissons(ctx, ctx.input(2), generator, *out);
}

}  // namespace

KernelFactory multinomial_kernel() { return kernel_of<Multinomial>(); }
KernelFactory stateless_multinomial_kernel() { return kernel_from(stateless_multinomial); }
KernelFactory random_gamma_kernel() { return kernel_of<RandomGamma>(); }
KernelFactory stateless_gamma_kernel(PhiloxSource source) {
  return kernel_from(source == PhiloxSource::kSeed ? stateless_gamma<PhiloxSource::kSeed>
                                                   : stateless_gamma<PhiloxSource::kCounter>);
}
KernelFactory random_poisson_kernel() { return kernel_of<RandomPoisson>(); }
KernelFactory stateless_poisson_kernel() { return kernel_from(stateless_poisson); }

}  // namespace tutti::cpu

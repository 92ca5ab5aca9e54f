#include "tutti/kernels/cpu/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/philox.h"

namespace tutti::cpu {

namespace {

// Blocks that one output element may use up. Generous, so that rejection sampling never runs into the next run's.
constexpr std::uint64_t kBlocksPerOutput = 256;

// The generator of one kernel, handing disjoint stretches of its sequence to the runs.
class SharedPhilox {
 public:
  explicit SharedPhilox(const KernelInit& init) : generator_(seeded(init)) {}

  Philox reserve(std::uint64_t blocks) {
    MutexLock lock(mu_);
    const Philox start = generator_;
    generator_.skip(blocks);
    return start;
  }

 private:
  static Philox seeded(const KernelInit& init) {
    auto seed = static_cast<std::uint64_t>(init.attr<std::int64_t>("seed"));
    auto seed2 = static_cast<std::uint64_t>(init.attr<std::int64_t>("seed2"));
    if (seed == 0 && seed2 == 0) {
      std::random_device entropy;
      seed = (std::uint64_t{entropy()} << 32) | entropy();
      seed2 = (std::uint64_t{entropy()} << 32) | entropy();
    }
    return Philox(seed, seed2);
  }

  Mutex mu_;
  Philox generator_ TUTTI_GUARDED_BY(mu_);
};

// --- From random bits to numbers in [0, 1): the bits are the mantissa of a number in [1, 2). ---

float unit_float(std::uint32_t bits) {
  const std::uint32_t pattern = (std::uint32_t{127} << 23) | (bits & 0x7fffffu);
  float value;
  std::memcpy(&value, &pattern, sizeof value);
  return value - 1.0f;
}

double unit_double(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t pattern = (std::uint64_t{1023} << 52) | (std::uint64_t{high & 0xfffffu} << 32) | low;
  double value;
  std::memcpy(&value, &pattern, sizeof value);
  return value - 1.0;
}

Half unit_half(std::uint32_t bits) {
  const auto pattern = static_cast<std::uint16_t>((15 << 10) | (bits & 0x3ff));
  return Half(static_cast<float>(Half::from_bits(pattern)) - 1.0f);
}

Bfloat16 unit_bfloat16(std::uint32_t bits) {
  const auto pattern = static_cast<std::uint16_t>((127 << 7) | (bits & 0x7f));
  return Bfloat16(static_cast<float>(Bfloat16::from_bits(pattern)) - 1.0f);
}

// --- Two numbers of the normal distribution from two uniform ones (Box and Muller). ---

constexpr float kSmallest = 1.0e-7f;  // keeps the logarithm finite

void normal_pair(std::uint32_t x0, std::uint32_t x1, float* out) {
  const float u = std::max(unit_float(x0), kSmallest);
  const auto angle = static_cast<float>(2.0f * std::numbers::pi * unit_float(x1));
  const float radius = std::sqrt(-2.0f * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

void normal_pair(std::uint32_t x0, std::uint32_t x1, std::uint32_t x2, std::uint32_t x3, double* out) {
  const double u = std::max(unit_double(x0, x1), 1.0e-7);
  const double angle = 2.0 * std::numbers::pi * unit_double(x2, x3);
  const double radius = std::sqrt(-2.0 * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

// --- Distributions: group g of an output is what one call gives. ---

template <typename T>
struct Uniform {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  Group operator()(const Philox::Block& b) const {
    if constexpr (std::is_same_v<T, double>) {
      return {unit_double(b[0], b[1]), unit_double(b[2], b[3])};
    } else if constexpr (std::is_same_v<T, float>) {
      return {unit_float(b[0]), unit_float(b[1]), unit_float(b[2]), unit_float(b[3])};
    } else if constexpr (std::is_same_v<T, Half>) {
      return {unit_half(b[0]), unit_half(b[1]), unit_half(b[2]), unit_half(b[3])};
    } else {
      return {unit_bfloat16(b[0]), unit_bfloat16(b[1]), unit_bfloat16(b[2]), unit_bfloat16(b[3])};
    }
  }
};

template <typename T>
struct Normal {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  Group operator()(const Philox::Block& b) const {
    if constexpr (std::is_same_v<T, double>) {
      Group group;
      normal_pair(b[0], b[1], b[2], b[3], group.data());
      return group;
    } else {
      std::array<float, 4> wide;
      normal_pair(b[0], b[1], wide.data());
      normal_pair(b[2], b[3], wide.data() + 2);
      return {static_cast<T>(wide[0]), static_cast<T>(wide[1]), static_cast<T>(wide[2]), static_cast<T>(wide[3])};
    }
  }
};

template <typename T>
struct UniformInt {
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  using Group = std::array<T, kGroup>;
  using Unsigned = std::make_unsigned_t<T>;
  T low;
  Unsigned range;
  T pick(Unsigned bits) const { return static_cast<T>(static_cast<Unsigned>(low) + bits % range); }
  Group operator()(const Philox::Block& b) const {
    if constexpr (sizeof(T) == 8) {
      return {pick(b[0] | std::uint64_t{b[1]} << 32), pick(b[2] | std::uint64_t{b[3]} << 32)};
    } else {
      return {pick(b[0]), pick(b[1]), pick(b[2]), pick(b[3])};
    }
  }
};

constexpr std::int64_t kGroupsPerThread = 4096;

// One block a group.
template <typename Distribution>
void fill_by_blocks(KernelContext& ctx, Philox generator, const Distribution& distribution, Tensor& out) {
  using T = typename Distribution::Group::value_type;
  constexpr int kGroup = Distribution::kGroup;
  T* to = out.data<T>();
  const std::int64_t count = out.num_elements();
  const std::int64_t groups = count / kGroup + (count % kGroup != 0);
  parallel_for(ctx.team(), groups, kGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
    Philox local = generator;
    local.skip(static_cast<std::uint64_t>(begin));
    for (std::int64_t g = begin; g < end; ++g) {
      const auto group = distribution(local.next());
      std::copy_n(group.begin(), std::min<std::int64_t>(kGroup, count - g * kGroup), to + g * kGroup);
    }
  });
}

constexpr double kTruncateAt = 2.0;

// The next group of normal numbers nearer to 0 than kTruncateAt.
template <typename T, int kGroup>
std::array<T, kGroup> truncated_group(PhiloxWords words) {
  std::array<T, kGroup> group;
  int filled = 0;
  while (true) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::array<Wide, 2> pair;
    const std::uint32_t x0 = words.next();
    const std::uint32_t x1 = words.next();
    if constexpr (std::is_same_v<T, double>) {
      const std::uint32_t x2 = words.next();
      const std::uint32_t x3 = words.next();
      normal_pair(x0, x1, x2, x3, pair.data());
    } else {
      normal_pair(x0, x1, pair.data());
    }
    for (const Wide value : pair) {
      if (std::abs(value) >= kTruncateAt) continue;
      group[filled++] = static_cast<T>(value);
      if (filled == kGroup) return group;
    }
  }
}

template <typename T>
void fill_truncated(KernelContext& ctx, Philox generator, Tensor& out) {
  constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  // Each group starts at a place of its own, however many numbers those before it rejected.
  constexpr std::uint64_t kBlocksPerGroup = kGroup * kBlocksPerOutput / 4;
  T* to = out.data<T>();
  const std::int64_t count = out.num_elements();
  const std::int64_t groups = count / kGroup + (count % kGroup != 0);
  parallel_for(ctx.team(), groups, kGroupsPerThread / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      Philox local = generator;
      local.skip(static_cast<std::uint64_t>(g) * kBlocksPerGroup);
      const auto group = truncated_group<T, kGroup>(PhiloxWords(local));
      std::copy_n(group.begin(), std::min<std::int64_t>(kGroup, count - g * kGroup), to + g * kGroup);
    }
  });
}

enum class Law { kUniform, kNormal, kTruncatedNormal };

template <Law kLaw, typename T>
void draw(KernelContext& ctx, Philox generator, Tensor& out) {
  if constexpr (kLaw == Law::kUniform) fill_by_blocks(ctx, generator, Uniform<T>(), out);
  if constexpr (kLaw == Law::kNormal) fill_by_blocks(ctx, generator, Normal<T>(), out);
  if constexpr (kLaw == Law::kTruncatedNormal) fill_truncated<T>(ctx, generator, out);
}

template <Law kLaw>
class RandomFloats : public Kernel {
 public:
  explicit RandomFloats(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const Philox generator = generator_.reserve(static_cast<std::uint64_t>(shape.num_elements()) * kBlocksPerOutput);
    switch (out->dtype()) {
      case DType::kFloat:
        draw<kLaw, float>(ctx, generator, *out);
        return {};
      case DType::kDouble:
        draw<kLaw, double>(ctx, generator, *out);
        return {};
      case DType::kHalf:
        draw<kLaw, Half>(ctx, generator, *out);
        return {};
      case DType::kBfloat16:
        draw<kLaw, Bfloat16>(ctx, generator, *out);
        return {};
      default:
        return unimplemented("no random numbers of ", dtype_name(out->dtype()));
    }
  }

 private:
  SharedPhilox generator_;
};

template <typename T>
Status draw_integers(KernelContext& ctx, SharedPhilox& shared) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
  if (ctx.input(1).rank() != 0 || ctx.input(2).rank() != 0) {
    return invalid_argument("minval and maxval must be scalars, got ", ctx.input(1).shape(), " and ",
                            ctx.input(2).shape());
  }
  const T low = ctx.input(1).scalar<T>();
  const T high = ctx.input(2).scalar<T>();
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (shape.num_elements() == 0) return {};
  if (low >= high) return invalid_argument("Need minval < maxval, got ", low, " >= ", high);
  using Unsigned = std::make_unsigned_t<T>;
  const UniformInt<T> distribution{low,
                                   static_cast<Unsigned>(static_cast<Unsigned>(high) - static_cast<Unsigned>(low))};
  const Philox generator = shared.reserve(static_cast<std::uint64_t>(shape.num_elements()) * kBlocksPerOutput);
  fill_by_blocks(ctx, generator, distribution, *out);
  return {};
}

class RandomUniformInt : public Kernel {
 public:
  explicit RandomUniformInt(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    return ctx.output_type(0) == DType::kInt32 ? draw_integers<std::int32_t>(ctx, generator_)
                                               : draw_integers<std::int64_t>(ctx, generator_);
  }

 private:
  SharedPhilox generator_;
};

class RandomShuffle : public Kernel {
 public:
  explicit RandomShuffle(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& value = ctx.input(0);
    if (value.num_elements() <= 1 || value.dim(0) <= 1) {
      ctx.set_output(0, value);
      return {};
    }
    const std::int64_t rows = value.dim(0);
    PhiloxWords words(generator_.reserve(static_cast<std::uint64_t>((rows - 1 + 3) / 4)));
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = 0; i + 1 < rows; ++i) {
      const std::int64_t pick = i + words.next() % static_cast<std::uint32_t>(rows - i);
      std::swap(order[i], order[pick]);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, value.shape()));
    const std::int64_t row = value.num_elements() / rows;
    for (std::int64_t i = 0; i < rows; ++i) {
      copy_elements(value.dtype(), at_element(value.dtype(), out->raw(), i * row),
                    at_element(value.dtype(), value.raw(), order[i] * row), row);
    }
    return {};
  }

 private:
  SharedPhilox generator_;
};

}  // namespace

KernelFactory random_uniform_kernel() { return kernel_of<RandomFloats<Law::kUniform>>(); }
KernelFactory random_normal_kernel() { return kernel_of<RandomFloats<Law::kNormal>>(); }
KernelFactory truncated_normal_kernel() { return kernel_of<RandomFloats<Law::kTruncatedNormal>>(); }
KernelFactory random_uniform_int_kernel() { return kernel_of<RandomUniformInt>(); }
KernelFactory random_shuffle_kernel() { return kernel_of<RandomShuffle>(); }

}  // namespace tutti::cpu

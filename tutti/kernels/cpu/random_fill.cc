#include "tutti/kernels/cpu/random_fill.h"

#include <algorithm>
#include <array>
#include <random>

#include "tutti/kernels/cpu/internal/random_numbers.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

Philox SharedPhilox::seeded(const KernelInit& init) {
  auto seed = static_cast<std::uint64_t>(init.attr<std::int64_t>("seed"));
  auto seed2 = static_cast<std::uint64_t>(init.attr<std::int64_t>("seed2"));
  if (seed == 0 && seed2 == 0) {
    std::random_device entropy;
    seed = (std::uint64_t{entropy()} << 32) | entropy();
    seed2 = (std::uint64_t{entropy()} << 32) | entropy();
  }
  return Philox(seed, seed2);
}

namespace {

constexpr std::int64_t kGroupsPerThread = 4096;

// One block a group.
template <typename Distribution>
void fill_by_blocks(Team& team, Philox generator, const Distribution& distribution, Tensor& out) {
  using T = typename Distribution::Group::value_type;
  constexpr int kGroup = Distribution::kGroup;
  T* to = out.data<T>();
  const std::int64_t count = out.num_elements();
  const std::int64_t groups = count / kGroup + (count % kGroup != 0);
  parallel_for(team, groups, kGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
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
void fill_truncated(Team& team, Philox generator, Tensor& out) {
  constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  // Each group starts at a place of its own, however many numbers those before it rejected.
  constexpr std::uint64_t kBlocksPerGroup = kGroup * kBlocksPerOutput / 4;
  T* to = out.data<T>();
  const std::int64_t count = out.num_elements();
  const std::int64_t groups = count / kGroup + (count % kGroup != 0);
  parallel_for(team, groups, kGroupsPerThread / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      Philox local = generator;
      local.skip(static_cast<std::uint64_t>(g) * kBlocksPerGroup);
      const auto group = truncated_group<T, kGroup>(PhiloxWords(local));
      std::copy_n(group.begin(), std::min<std::int64_t>(kGroup, count - g * kGroup), to + g * kGroup);
    }
  });
}

template <typename T>
void draw(Team& team, RandomLaw law, const Philox& generator, Tensor& out) {
  switch (law) {
    case RandomLaw::kUniform:
      return fill_by_blocks(team, generator, Uniform<T>(), out);
    case RandomLaw::kNormal:
      return fill_by_blocks(team, generator, Normal<T>(), out);
    case RandomLaw::kTruncatedNormal:
      return fill_truncated<T>(team, generator, out);
  }
}

template <typename T>
Status draw_integers(Team& team, const Philox& generator, const Tensor& from, const Tensor& to, Tensor& out) {
  const T low = from.scalar<T>(), high = to.scalar<T>();
  if (low >= high) return invalid_argument("Need minval < maxval, got ", low, " >= ", high);
  using Unsigned = std::make_unsigned_t<T>;
  const auto range = static_cast<Unsigned>(static_cast<Unsigned>(high) - static_cast<Unsigned>(low));
  fill_by_blocks(team, generator, UniformInt<T>{low, range}, out);
  return {};
}

}  // namespace

Status fill_random(Team& team, RandomLaw law, const Philox& generator, Tensor& out) {
  switch (out.dtype()) {
    case DType::kFloat:
      draw<float>(team, law, generator, out);
      return {};
    case DType::kDouble:
      draw<double>(team, law, generator, out);
      return {};
    case DType::kHalf:
      draw<Half>(team, law, generator, out);
      return {};
    case DType::kBfloat16:
      draw<Bfloat16>(team, law, generator, out);
      return {};
    default:
      return unimplemented("no random numbers of ", dtype_name(out.dtype()));
  }
}

Status fill_random_integers(Team& team, const Philox& generator, const Tensor& low, const Tensor& high, Tensor& out) {
  if (low.rank() != 0 || high.rank() != 0) {
    return invalid_argument("minval and maxval must be scalars, got ", low.shape(), " and ", high.shape());
  }
  if (out.num_elements() == 0) return {};
  if (out.dtype() == DType::kInt32) return draw_integers<std::int32_t>(team, generator, low, high, out);
  if (out.dtype() == DType::kInt64) return draw_integers<std::int64_t>(team, generator, low, high, out);
  return unimplemented("no random integers of ", dtype_name(out.dtype()));
}

Status fill_random_bits(Team& team, const Philox& generator, Tensor& out) {
  switch (out.dtype()) {
    case DType::kInt32:
      fill_by_blocks(team, generator, UniformBits<std::int32_t>(), out);
      return {};
    case DType::kUint32:
      fill_by_blocks(team, generator, UniformBits<std::uint32_t>(), out);
      return {};
    case DType::kInt64:
      fill_by_blocks(team, generator, UniformBits<std::int64_t>(), out);
      return {};
    case DType::kUint64:
      fill_by_blocks(team, generator, UniformBits<std::uint64_t>(), out);
      return {};
    default:
      return unimplemented("no random bits of ", dtype_name(out.dtype()));
  }
}

}  // namespace tutti::cpu

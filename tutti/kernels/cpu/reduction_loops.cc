// Vector loops of the reductions, compiled once per instruction set.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "tutti/kernels/cpu/internal/simd_targets.h"
#include "tutti/kernels/cpu/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tutti/kernels/cpu/reduction_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using internal::ColumnLoop;
using internal::ReduceKind;
using internal::ReduceLoop;
using internal::ReduceLoops;

#define TUTTI_REDUCE(name, vector_expression, scalar_expression, start) \
  struct name {                                                         \
    template <class V>                                                  \
    static HWY_INLINE V join(V a, V b) {                                \
      return vector_expression;                                         \
    }                                                                   \
    template <typename T>                                               \
    static HWY_INLINE T join_one(T a, T b) {                            \
      return scalar_expression;                                         \
    }                                                                   \
    template <typename T>                                               \
    static constexpr T identity() {                                     \
      return start;                                                     \
    }                                                                   \
  };
// Integers wrap: joined as unsigned, which has no undefined overflow.
template <typename T>
HWY_INLINE T wrapping_add(T a, T b) {
  if constexpr (hwy::IsFloat<T>()) {
    return a + b;
  } else {
    using U = hwy::MakeUnsigned<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}
template <typename T>
HWY_INLINE T wrapping_multiply(T a, T b) {
  if constexpr (hwy::IsFloat<T>()) {
    return a * b;
  } else {
    using U = hwy::MakeUnsigned<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
}
TUTTI_REDUCE(Add, hn::Add(a, b), wrapping_add(a, b), T{0})
TUTTI_REDUCE(Multiply, hn::Mul(a, b), wrapping_multiply(a, b), T{1})
TUTTI_REDUCE(Minimum, hn::Min(a, b), (b < a ? b : a),
             (hwy::IsFloat<T>() ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max()))
TUTTI_REDUCE(Maximum, hn::Max(a, b), (a < b ? b : a),
             (hwy::IsFloat<T>() ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest()))
#undef TUTTI_REDUCE

struct Same {
  template <class V>
  static HWY_INLINE V map(V x) {
    return x;
  }
};
struct Squared {
  template <class V>
  static HWY_INLINE V map(V x) {
    return hn::Mul(x, x);
  }
};

// Four running vectors hide the latency of the additions and keep partial sums short.
template <class Op, class Map, typename T>
T reduce_block(const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, Op::template identity<T>());
  auto s0 = start, s1 = start, s2 = start, s3 = start;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = Op::join(s0, Map::map(hn::LoadU(d, in + i)));
    s1 = Op::join(s1, Map::map(hn::LoadU(d, in + i + lanes)));
    s2 = Op::join(s2, Map::map(hn::LoadU(d, in + i + 2 * lanes)));
    s3 = Op::join(s3, Map::map(hn::LoadU(d, in + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = Op::join(s0, Map::map(hn::LoadU(d, in + i)));
  if (i < n) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
    const auto tail = hn::IfThenElse(rest, Map::map(hn::MaskedLoad(rest, d, in + i)), start);
    s1 = Op::join(s1, tail);
  }
  const auto joined = Op::join(Op::join(s0, s1), Op::join(s2, s3));
  if constexpr (std::is_same_v<Op, Add>) return hn::GetLane(hn::SumOfLanes(d, joined));
  HWY_ALIGN T lane[HWY_LANES(T)];
  hn::Store(joined, d, lane);
  for (std::int64_t width = lanes / 2; width >= 1; width /= 2) {
    for (std::int64_t l = 0; l < width; ++l) lane[l] = Op::join_one(lane[l], lane[l + width]);
  }
  return lane[0];
}

// Long float sums are gathered in double block by block: the error does not grow with the length.
template <class Op, class Map, typename T>
void reduce_row(const void* from, std::int64_t n, void* to) {
  constexpr std::int64_t kBlock = 8192;
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  if (n <= kBlock) {
    *out = reduce_block<Op, Map>(in, n);
    return;
  }
  using Wide = std::conditional_t<hwy::IsFloat<T>(), double, T>;
  Wide total = Op::template identity<Wide>();
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const Wide block = static_cast<Wide>(reduce_block<Op, Map>(in + i, std::min(kBlock, n - i)));
    total = Op::join_one(total, block);
  }
  *out = static_cast<T>(total);
}

// `rows` rows of up to four vectors, held in registers.
template <class Op, typename T>
void reduce_strip(const T* in, std::int64_t rows, std::int64_t stride, std::int64_t width, bool first, T* out) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (width == 4 * lanes) {
    auto s0 = hn::LoadU(d, in), s1 = hn::LoadU(d, in + lanes), s2 = hn::LoadU(d, in + 2 * lanes),
         s3 = hn::LoadU(d, in + 3 * lanes);
    for (std::int64_t r = 1; r < rows; ++r) {
      const T* row = in + r * stride;
      s0 = Op::join(s0, hn::LoadU(d, row));
      s1 = Op::join(s1, hn::LoadU(d, row + lanes));
      s2 = Op::join(s2, hn::LoadU(d, row + 2 * lanes));
      s3 = Op::join(s3, hn::LoadU(d, row + 3 * lanes));
    }
    if (!first) {
      s0 = Op::join(hn::LoadU(d, out), s0);
      s1 = Op::join(hn::LoadU(d, out + lanes), s1);
      s2 = Op::join(hn::LoadU(d, out + 2 * lanes), s2);
      s3 = Op::join(hn::LoadU(d, out + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, out);
    hn::StoreU(s1, d, out + lanes);
    hn::StoreU(s2, d, out + 2 * lanes);
    hn::StoreU(s3, d, out + 3 * lanes);
    return;
  }
  for (std::int64_t c = 0; c < width; c += lanes) {
    const auto part = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, width - c)));
    auto s = hn::MaskedLoad(part, d, in + c);
    for (std::int64_t r = 1; r < rows; ++r) s = Op::join(s, hn::MaskedLoad(part, d, in + r * stride + c));
    if (!first) s = Op::join(hn::MaskedLoad(part, d, out + c), s);
    hn::BlendedStore(s, part, d, out + c);
  }
}

// Sums of at most kRows rows are joined at the end, so that errors grow with the number of blocks only.
template <class Op, typename T>
void reduce_columns(const void* from, std::int64_t rows, std::int64_t columns, void* to) {
  constexpr std::int64_t kRows = 512;
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  const std::int64_t strip = 4 * static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (std::int64_t r = 0; r < rows; r += kRows) {
    for (std::int64_t c = 0; c < columns; c += strip) {
      reduce_strip<Op, T>(in + r * columns + c, std::min(kRows, rows - r), columns, std::min(strip, columns - c),
                          r == 0, out + c);
    }
  }
}

template <typename T>
ReduceLoops loops_for(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kAdd:
      return {&reduce_row<Add, Same, T>, &reduce_columns<Add, T>};
    case ReduceKind::kMultiply:
      return {&reduce_row<Multiply, Same, T>, &reduce_columns<Multiply, T>};
    case ReduceKind::kMinimum:
      return {&reduce_row<Minimum, Same, T>, &reduce_columns<Minimum, T>};
    case ReduceKind::kMaximum:
      return {&reduce_row<Maximum, Same, T>, &reduce_columns<Maximum, T>};
  }
  return {};
}

}  // namespace

ReduceLoops find_reduce(ReduceKind kind, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return loops_for<float>(kind);
    case DType::kDouble:
      return loops_for<double>(kind);
    case DType::kInt32:
      return loops_for<std::int32_t>(kind);
    case DType::kInt64:
      return loops_for<std::int64_t>(kind);
    default:
      return {};
  }
}

ReduceLoop find_sum_squares(DType dtype) {
  if (dtype == DType::kFloat) return &reduce_row<Add, Squared, float>;
  if (dtype == DType::kDouble) return &reduce_row<Add, Squared, double>;
  return nullptr;
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(find_reduce);
HWY_EXPORT(find_sum_squares);

internal::ReduceLoops internal::find_simd_reduce(ReduceKind kind, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_reduce)(kind, dtype);
}

internal::ReduceLoop internal::find_simd_sum_squares(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_sum_squares)(dtype);
}

}  // namespace tutti::cpu
#endif

#include "tutti/kernels/cpu/row_loops.h"

#include <algorithm>
#include <span>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

namespace {

// Elements that are added up at a time, in the wider type.
constexpr std::int64_t kStrip = 64;

template <typename T>
T scaled(typename ArithmeticOf<T>::type value, double scale) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value * static_cast<typename ArithmeticOf<T>::type>(scale));
  }
}

template <typename T, typename Index>
void sum_rows_plainly(const void* from, const Index* rows, std::int64_t count, std::int64_t /*ahead*/,
                      std::int64_t width, double scale, void* to) {
  using Wide = typename ArithmeticOf<T>::type;
  const T* table = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (std::int64_t column = 0; column < width; column += kStrip) {
    const std::int64_t size = std::min(kStrip, width - column);
    Wide sums[kStrip] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const T* row = table + rows[i] * width + column;
      for (std::int64_t c = 0; c < size; ++c) sums[c] += static_cast<Wide>(row[c]);
    }
    for (std::int64_t c = 0; c < size; ++c) out[column + c] = scaled<T>(sums[c], scale);
  }
}

template <typename T>
void add_row_plainly(const void* from, std::int64_t width, double scale, void* to) {
  using Wide = typename ArithmeticOf<T>::type;
  const T* row = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (std::int64_t c = 0; c < width; ++c) {
    out[c] = static_cast<T>(static_cast<Wide>(out[c]) + static_cast<Wide>(scaled<T>(static_cast<Wide>(row[c]), scale)));
  }
}

}  // namespace

RowLoops find_row_loops(DType dtype) {
  if (RowLoops simd = internal::find_simd_row_loops(dtype)) return simd;
  return with_real(
      dtype,
      []<typename T>(T) -> RowLoops {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
          return {};
        } else {
          return {&sum_rows_plainly<T, std::int32_t>, &sum_rows_plainly<T, std::int64_t>, &add_row_plainly<T>};
        }
      },
      []() -> RowLoops { return {}; });
}

namespace {

// A row that is added to is fetched this many additions before its turn, as much of it as the hardware would not.
constexpr std::int64_t kTargetsEarly = 8;
constexpr std::size_t kBytesEarly = 256;

void fetch_row(const void* row, std::size_t bytes) {
  const char* from = static_cast<const char*>(row);
  for (std::size_t at = 0; at < std::min(bytes, kBytesEarly); at += 64) __builtin_prefetch(from + at, 1);
}

// Adds to the rows [begin, end) of `out`.
template <typename Index>
void scatter_into(const RowLoops& loops, const Tensor& from, std::span<const Index> targets, const Tensor* sources,
                  const double* scales, std::int64_t width, Tensor& out, std::int64_t begin, std::int64_t end) {
  const DType dtype = out.dtype();
  const std::size_t bytes = static_cast<std::size_t>(width) * element_stride(dtype), count = targets.size();
  const auto mine = [&](std::int64_t row) { return row >= begin && row < end; };
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kTargetsEarly < count && mine(targets[i + kTargetsEarly])) {
      fetch_row(at_element(dtype, out.raw(), targets[i + kTargetsEarly] * width), bytes);
    }
    if (!mine(targets[i])) continue;
    const auto place = static_cast<std::int64_t>(i);
    const std::int64_t source = sources != nullptr ? index_at(sources->raw(), sources->dtype(), place) : place;
    loops.add(at_element(dtype, from.raw(), source * width), width, scales != nullptr ? scales[source] : 1.0,
              at_element(dtype, out.raw(), targets[i] * width));
  }
}

}  // namespace

void scatter_rows(Team& team, const RowLoops& loops, const Tensor& from, const Tensor& targets, const Tensor* sources,
                  const double* scales, std::int64_t width, Tensor& out) {
  const DType dtype = out.dtype();
  const std::int64_t rows = width > 0 ? out.num_elements() / width : 0;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(width, 1));
  // Every piece looks at all targets and takes those of its own rows: no two threads write one row.
  parallel_for(team, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    zero_elements(dtype, at_element(dtype, out.raw(), begin * width), (end - begin) * width);
    const auto scatter = [&]<typename Index>(Index) {
      scatter_into(loops, from, targets.flat<Index>(), sources, scales, width, out, begin, end);
    };
    if (targets.dtype() == DType::kInt64) return scatter(std::int64_t{});
    if (targets.dtype() == DType::kInt32) return scatter(std::int32_t{});
    scatter(std::int16_t{});
  });
}

}  // namespace tutti::cpu

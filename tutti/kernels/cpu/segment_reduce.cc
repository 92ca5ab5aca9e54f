// Means, products, minima and maxima of groups of rows.
#include <limits>

#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/segment.h"

namespace tutti::cpu {

namespace {

Result<BinaryFunction> joining(BinaryOp op, DType dtype) {
  const BinaryFunction function = BinaryFunction::find(op, dtype);
  if (!function) return unimplemented("no products or extremes of ", dtype_name(dtype));
  return function;
}

template <typename T>
T largest_number() {
  if constexpr (std::is_same_v<T, Half>) {
    return Half::from_bits(0x7bff);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return Bfloat16::from_bits(0x7f7f);
  } else {
    return std::numeric_limits<T>::max();
  }
}

template <typename T>
T least_number() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::min();
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return static_cast<T>(-static_cast<float>(largest_number<T>()));
  } else {
    return -std::numeric_limits<T>::max();
  }
}

// A scalar that joined with x gives x.
Result<Tensor> neutral_of(BinaryOp op, DType dtype) {
  const auto otherwise = [&]() -> Result<Tensor> {
    return unimplemented("no products or extremes of ", dtype_name(dtype));
  };
  if (op == BinaryOp::kMul) {
    return with_number(
        dtype, []<typename T>(T) -> Result<Tensor> { return Tensor::scalar(static_cast<T>(1.0f)); }, otherwise);
  }
  return with_real(
      dtype,
      [op]<typename T>(T) -> Result<Tensor> {
        return Tensor::scalar(op == BinaryOp::kMaximum ? least_number<T>() : largest_number<T>());
      },
      otherwise);
}

Status unsorted_join(KernelContext& ctx, BinaryOp op) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, unsorted_segments(ctx));
  const Tensor &data = ctx.input(0), &ids = ctx.input(1);
  const DType dtype = data.dtype();
  TUTTI_ASSIGN_OR_RETURN(const BinaryFunction join, joining(op, dtype));
  TUTTI_ASSIGN_OR_RETURN(const Tensor neutral, neutral_of(op, dtype));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_segments(ctx, segments));
  TUTTI_RETURN_IF_ERROR(fill_cancellable(ctx, *out, neutral.raw()));
  const std::int64_t row = elements_from(data.shape(), ids.rank());
  for (std::int64_t i = 0; row > 0 && i < ids.num_elements(); ++i) {
    const std::int64_t id = index_at(ids.raw(), ids.dtype(), i);
    if (id < 0) continue;
    void* to = at_element(dtype, out->raw(), id * row);
    join(to, at_element(dtype, data.raw(), i * row), to, row, 1, 1);
  }
  return {};
}

// Joins sorted segments of rows; `finish`, when there is one, is called with each segment's row and number of rows.
template <typename Finish>
Status sorted_join(KernelContext& ctx, BinaryOp op, const Finish& finish) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, sorted_segments(ctx));
  const Tensor &data = ctx.input(0), &ids = ctx.input(1);
  const DType dtype = data.dtype();
  TUTTI_ASSIGN_OR_RETURN(const BinaryFunction join, joining(op, dtype));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_segments(ctx, segments));
  if (op == BinaryOp::kMul) {
    TUTTI_ASSIGN_OR_RETURN(const Tensor one, neutral_of(op, dtype));
    TUTTI_RETURN_IF_ERROR(fill_cancellable(ctx, *out, one.raw()));
  } else {
    TUTTI_RETURN_IF_ERROR(zero_cancellable(ctx, *out));
  }
  const std::int64_t row = elements_from(data.shape(), 1), count = ids.num_elements();
  const auto id = [&](std::int64_t i) { return index_at(ids.raw(), ids.dtype(), i); };
  for (std::int64_t begin = 0, end = 0; row > 0 && begin < count; begin = end) {
    void* to = at_element(dtype, out->raw(), id(begin) * row);
    copy_elements(dtype, to, at_element(dtype, data.raw(), begin * row), row);
    for (end = begin + 1; end < count && id(end) == id(begin); ++end) {
      join(to, at_element(dtype, data.raw(), end * row), to, row, 1, 1);
    }
    finish(to, row, end - begin);
  }
  return {};
}

Status sorted_join(KernelContext& ctx, BinaryOp op) {
  return sorted_join(ctx, op, [](void*, std::int64_t, std::int64_t) {});
}

template <typename T>
void divide_row(T* row, std::int64_t width, std::int64_t count) {
  for (std::int64_t i = 0; i < width; ++i) {
    if constexpr (std::is_integral_v<T>) {
      const T divisor = static_cast<T>(count);  // 0 where the count does not fit
      row[i] = divisor == 0 ? T{} : static_cast<T>(row[i] / divisor);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      row[i] = static_cast<T>(static_cast<float>(row[i]) / static_cast<float>(count));
    } else {
      row[i] /= static_cast<T>(static_cast<double>(count));
    }
  }
}

}  // namespace

Status segment_mean(KernelContext& ctx) {
  const DType dtype = ctx.input(0).dtype();
  return sorted_join(ctx, BinaryOp::kAdd, [dtype](void* row, std::int64_t width, std::int64_t count) {
    with_number(
        dtype, [&]<typename T>(T) { divide_row(static_cast<T*>(row), width, count); }, [] {});
  });
}

Status segment_prod(KernelContext& ctx) { return sorted_join(ctx, BinaryOp::kMul); }
Status segment_min(KernelContext& ctx) { return sorted_join(ctx, BinaryOp::kMinimum); }
Status segment_max(KernelContext& ctx) { return sorted_join(ctx, BinaryOp::kMaximum); }
Status unsorted_segment_prod(KernelContext& ctx) { return unsorted_join(ctx, BinaryOp::kMul); }
Status unsorted_segment_min(KernelContext& ctx) { return unsorted_join(ctx, BinaryOp::kMinimum); }
Status unsorted_segment_max(KernelContext& ctx) { return unsorted_join(ctx, BinaryOp::kMaximum); }

}  // namespace tutti::cpu

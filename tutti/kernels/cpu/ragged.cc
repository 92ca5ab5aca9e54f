#include "tutti/kernels/cpu/ragged.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

using Splits = std::vector<std::int64_t>;

// Splits that start with 0, do not go back, and end with `values`, or, unless `all` must be in a row, before them.
Result<Splits> read_splits(const Tensor& tensor, std::int64_t values, bool all) {
  if (tensor.num_elements() == 0) {
    return invalid_argument("row splits must be a vector that is not empty, got shape ", tensor.shape());
  }
  Splits splits(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < splits.size(); ++i) {
    splits[i] = index_at(tensor.raw(), tensor.dtype(), static_cast<std::int64_t>(i));
    if (i > 0 && splits[i] < splits[i - 1]) return invalid_argument("row splits decrease at ", i);
  }
  if (splits.front() != 0) return invalid_argument("row splits start with ", splits.front(), ", not with 0");
  if (splits.back() > values || (all && splits.back() != values)) {
    return invalid_argument("row splits end with ", splits.back(), ", but there are ", values, " rows or values");
  }
  return splits;
}

// Of inputs [0, depth), outermost first, over `values` values.
Result<std::vector<Splits>> read_nested_splits(KernelContext& ctx, int depth, std::int64_t values, bool all) {
  std::vector<Splits> nested(static_cast<std::size_t>(depth));
  for (int d = depth - 1; d >= 0; --d) {
    TUTTI_ASSIGN_OR_RETURN(nested[static_cast<std::size_t>(d)], read_splits(ctx.input(d), values, all));
    values = static_cast<std::int64_t>(nested[static_cast<std::size_t>(d)].size()) - 1;
  }
  return nested;
}

// --- Ranges. ---

template <typename T>
Result<std::int64_t> range_size(T start, T limit, T delta) {
  if (delta == T(0)) return invalid_argument("Requires delta != 0");
  if ((delta > T(0) && limit <= start) || (delta < T(0) && limit >= start)) return std::int64_t{0};
  double size;
  if constexpr (std::is_integral_v<T>) {
    const double distance = std::abs(static_cast<double>(limit) - static_cast<double>(start));
    const double step = std::abs(static_cast<double>(delta));
    size = std::ceil(distance / step);
  } else {
    size = std::ceil(std::abs((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta)));
  }
  if (!(size < 9e18)) return invalid_argument("the range has too many elements: ", size);
  return static_cast<std::int64_t>(size);
}

Result<std::int64_t> range_rows(KernelContext& ctx) {
  std::int64_t rows = -1;
  for (int i = 0; i < 3; ++i) {
    const Tensor& input = ctx.input(i);
    if (input.rank() > 1) return invalid_argument("starts, limits and deltas must be scalars or vectors");
    if (input.rank() == 0) continue;
    if (rows >= 0 && input.dim(0) != rows) {
      return invalid_argument("starts, limits and deltas must have the same length, got ", rows, " and ", input.dim(0));
    }
    rows = input.dim(0);
  }
  return rows < 0 ? 1 : rows;
}

template <typename T>
Status write_ranges(KernelContext& ctx, std::int64_t rows) {
  const auto at = [&](int input, std::int64_t i) {
    return ctx.input(input).data<T>()[ctx.input(input).rank() == 0 ? 0 : i];
  };
  Splits splits{0};
  for (std::int64_t r = 0; r < rows; ++r) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t size, range_size(at(0, r), at(1, r), at(2, r)));
    std::int64_t end;
    if (__builtin_add_overflow(splits.back(), size, &end)) return invalid_argument("the ranges are too long");
    splits.push_back(end);
  }
  TUTTI_RETURN_IF_ERROR(check_fits(splits, ctx.output_type(0), "the number of values"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * nested, ctx.allocate_output(0, Shape{rows + 1}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{splits.back()}));
  write_indices(splits, *nested);
  T* to = values->data<T>();
  for (std::int64_t r = 0; r < rows; ++r) {
    T value = at(0, r);
    for (std::int64_t i = splits[static_cast<std::size_t>(r)]; i < splits[static_cast<std::size_t>(r) + 1]; ++i) {
      *to++ = value;
      value = add_wrapping(value, at(2, r));
    }
  }
  return {};
}

}  // namespace

Status ragged_range(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t rows, range_rows(ctx));
  switch (ctx.input(0).dtype()) {
    case DType::kFloat:
      return write_ranges<float>(ctx, rows);
    case DType::kDouble:
      return write_ranges<double>(ctx, rows);
    case DType::kInt32:
      return write_ranges<std::int32_t>(ctx, rows);
    case DType::kInt64:
      return write_ranges<std::int64_t>(ctx, rows);
    default:
      return unimplemented("no ranges of ", dtype_name(ctx.input(0).dtype()));
  }
}

// --- To sparse. ---

Status ragged_tensor_to_sparse(KernelContext& ctx) {
  const int depth = ctx.num_inputs() - 1;
  const Tensor& values = ctx.input(depth);
  if (values.rank() < 1) return invalid_argument("rt_dense_values must have dimensions, got a scalar");
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Splits> nested, read_nested_splits(ctx, depth, values.dim(0), true));
  const int rank = depth + values.rank();
  if (rank > kMaxRank) return invalid_argument("the result has too many dimensions: ", rank);
  DimList shape;
  shape.push_back(static_cast<std::int64_t>(nested[0].size()) - 1);
  for (const Splits& splits : nested) {
    std::int64_t longest = 0;
    for (std::size_t i = 1; i < splits.size(); ++i) longest = std::max(longest, splits[i] - splits[i - 1]);
    shape.push_back(longest);
  }
  for (int d = 1; d < values.rank(); ++d) shape.push_back(values.dim(d));
  TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2, shape.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, values.num_elements(), rank));
  ctx.set_output(1, values.reshaped(Shape{values.num_elements()}));

  const std::int64_t inner = elements_from(values.shape(), 1);
  std::vector<std::int64_t> row(static_cast<std::size_t>(depth), 0);  // in each dimension, the row that value i is in
  std::int64_t* to = indices->data<std::int64_t>();
  for (std::int64_t i = 0; i < values.dim(0); ++i) {
    std::vector<std::int64_t> place(static_cast<std::size_t>(depth) + 1);
    std::int64_t at = i;
    for (std::size_t d = nested.size(); d-- > 0;) {
      while (nested[d][static_cast<std::size_t>(row[d]) + 1] <= at) ++row[d];
      place[d + 1] = at - nested[d][static_cast<std::size_t>(row[d])];
      at = row[d];
    }
    place[0] = at;
    for (std::int64_t j = 0; j < inner; ++j) {
      to = std::copy(place.begin(), place.end(), to);
      std::int64_t rest = j;
      for (int d = values.rank() - 1; d >= 1; rest /= values.dim(d), --d) to[d - 1] = rest % values.dim(d);
      to += values.rank() - 1;
    }
  }
  return {};
}

// --- Gathering rows. ---

namespace {

struct RowRange {
  std::int64_t begin, end;
};

// The outer dimensions of indices of more than one dimension: all their rows are equally long.
Status write_outer_splits(KernelContext& ctx, const Tensor& indices) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < indices.rank(); ++d) {
    rows *= indices.dim(d);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(d, Shape{rows + 1}));
    Splits splits(static_cast<std::size_t>(rows) + 1);
    for (std::size_t i = 0; i < splits.size(); ++i) splits[i] = static_cast<std::int64_t>(i) * indices.dim(d + 1);
    TUTTI_RETURN_IF_ERROR(check_fits(splits, out->dtype(), "a row split"));
    write_indices(splits, *out);
  }
  return {};
}

Result<std::vector<RowRange>> chosen_rows(const Tensor& indices, std::int64_t rows) {
  std::vector<RowRange> ranges;
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    const std::int64_t row = index_at(indices.raw(), indices.dtype(), i);
    if (row < 0 || row >= rows) {
      return invalid_argument("indices[", i, "] = ", row, " is not in [0, ", rows, ")");
    }
    ranges.push_back({row, row + 1});
  }
  return ranges;
}

}  // namespace

Status ragged_gather(KernelContext& ctx) {
  const int depth = ctx.num_inputs() - 2;
  const Tensor &values = ctx.input(depth), &indices = ctx.input(depth + 1);
  if (values.rank() < 1) return invalid_argument("params_dense_values must have dimensions, got a scalar");
  const int outer = std::max(indices.rank() - 1, 0);
  if (ctx.num_outputs() - 1 != outer + depth || indices.rank() == 0) {
    return invalid_argument("OUTPUT_RAGGED_RANK must be PARAMS_RAGGED_RANK + indices.rank - 1, with indices ",
                            indices.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Splits> nested, read_nested_splits(ctx, depth, values.dim(0), false));
  TUTTI_RETURN_IF_ERROR(write_outer_splits(ctx, indices));
  // As TensorFlow, which takes splits of other ranks, counts rows.
  const std::int64_t rows = ctx.input(0).rank() > 0 ? ctx.input(0).dim(0) - 1 : 0;
  TUTTI_ASSIGN_OR_RETURN(std::vector<RowRange> ranges, chosen_rows(indices, rows));
  // Dimension by dimension, ranges of rows become ranges of the rows inside them.
  for (int d = 0; d < depth; ++d) {
    const Splits& splits = nested[static_cast<std::size_t>(d)];
    Splits found{0};
    for (RowRange& range : ranges) {
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        found.push_back(found.back() + splits[static_cast<std::size_t>(r) + 1] - splits[static_cast<std::size_t>(r)]);
      }
      range = {splits[static_cast<std::size_t>(range.begin)], splits[static_cast<std::size_t>(range.end)]};
    }
    TUTTI_RETURN_IF_ERROR(check_fits(found, ctx.output_type(outer + d), "a row split"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out,
                           ctx.allocate_output(outer + d, Shape{static_cast<std::int64_t>(found.size())}));
    write_indices(found, *out);
  }
  std::int64_t total = 0;
  for (const RowRange& range : ranges) total += range.end - range.begin;
  DimList dims;
  for (int d = 0; d < values.rank(); ++d) dims.push_back(d == 0 ? total : values.dim(d));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(outer + depth, shape));
  const DType dtype = values.dtype();
  const std::int64_t row = elements_from(values.shape(), 1);
  std::int64_t filled = 0;
  for (const RowRange& range : ranges) {
    copy_elements(dtype, at_element(dtype, out->raw(), filled * row),
                  at_element(dtype, values.raw(), range.begin * row), (range.end - range.begin) * row);
    filled += range.end - range.begin;
  }
  return {};
}

}  // namespace tutti::cpu

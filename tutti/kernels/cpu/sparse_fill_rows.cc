// A default value for every row of a sparse tensor that has none, and its gradient.
#include <algorithm>

#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/sparse_structure.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

Status check_fill_rows(const SparseView& view, const Tensor& fill) {
  if (fill.rank() != 0) return invalid_argument("default_value must be a scalar, got shape ", fill.shape());
  if (view.rank == 0) return invalid_argument("the dense shape cannot be empty");
  if (view.dims[0] < 0) return invalid_argument("the dense shape has ", view.dims[0], " rows");
  if (view.dims[0] == 0 && view.count > 0) {
    return invalid_argument("received a sparse tensor with dense_shape[0] = 0 but ", view.count, " entries");
  }
  for (std::int64_t i = 0; i < view.count; ++i) {
    const std::int64_t row = view.row(i)[0];
    if (row < 0 || row >= view.dims[0]) {
      return invalid_argument("indices(", i, ", 0) is invalid: ", row, " is not in [0, ", view.dims[0], ")");
    }
  }
  return {};
}

// Turns the number of entries of each row into where in the output they start, filled rows having one.
std::int64_t starts_of_rows(std::int64_t* counts, std::int64_t rows, bool* empty) {
  std::int64_t total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    empty[r] = counts[r] == 0;
    const std::int64_t count = std::max<std::int64_t>(counts[r], 1);
    counts[r] = total;
    total += count;
  }
  return total;
}

}  // namespace

Status sparse_fill_empty_rows(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
  const Tensor& fill = ctx.input(3);
  TUTTI_RETURN_IF_ERROR(check_fill_rows(view, fill));
  const std::int64_t rows = view.dims[0];
  TUTTI_ASSIGN_OR_RETURN(Tensor * empty, ctx.allocate_output(2, Shape{rows}));
  TUTTI_ASSIGN_OR_RETURN(Tensor next, ctx.allocate_temp(DType::kInt64, Shape{rows}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * map, ctx.allocate_output(3, Shape{view.count}));
  std::int64_t* place = next.data<std::int64_t>();
  std::fill_n(place, rows, 0);
  for (std::int64_t i = 0; i < view.count; ++i) ++place[view.row(i)[0]];
  const std::int64_t total = starts_of_rows(place, rows, empty->data<bool>());

  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, total, view.rank));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{total}));
  std::int64_t* index_rows = indices->data<std::int64_t>();
  const DType dtype = fill.dtype();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!empty->data<bool>()[r]) continue;
    std::fill_n(index_rows + place[r] * view.rank, view.rank, 0);
    index_rows[place[r] * view.rank] = r;
    copy_elements(dtype, at_element(dtype, values->raw(), place[r]), fill.raw(), 1);
  }
  for (std::int64_t i = 0; i < view.count; ++i) {
    const std::int64_t to = place[view.row(i)[0]]++;
    std::copy_n(view.row(i), view.rank, index_rows + to * view.rank);
    copy_elements(dtype, at_element(dtype, values->raw(), to), at_element(dtype, view.values->raw(), i), 1);
    map->data<std::int64_t>()[i] = to;
  }
  return {};
}

namespace {

template <typename T>
T sum_of_unused(const T* grad, const bool* used, std::int64_t count) {
  T sum{};
  for (std::int64_t i = 0; i < count; ++i) {
    if (!used[i]) sum = add_wrapping(sum, grad[i]);
  }
  return sum;
}

}  // namespace

Status sparse_fill_empty_rows_grad(KernelContext& ctx) {
  const Tensor &map = ctx.input(0), &grad = ctx.input(1);
  if (map.rank() != 1 || grad.rank() != 1) {
    return invalid_argument("reverse_index_map and grad_values must be vectors, got ", map.shape(), " and ",
                            grad.shape());
  }
  const std::int64_t full = grad.dim(0);
  const std::span<const std::int64_t> places = map.flat<std::int64_t>();
  for (const std::int64_t place : places) {
    if (place < 0 || place >= full) {
      return invalid_argument("elements of reverse_index_map must be in [0, ", full, "), got ", place);
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(0, map.shape()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * rest, ctx.allocate_output(1, Shape{}));
  TUTTI_ASSIGN_OR_RETURN(Tensor used, ctx.allocate_temp(DType::kBool, grad.shape()));
  std::fill_n(used.data<bool>(), full, false);
  for (const std::int64_t place : places) used.data<bool>()[place] = true;
  pick_elements(grad, places, *values);
  return with_number(
      grad.dtype(),
      [&]<typename T>(T) -> Status {
        *rest->data<T>() = sum_of_unused(grad.data<T>(), used.data<bool>(), full);
        return {};
      },
      [&]() -> Status { return unimplemented("no sums of ", dtype_name(grad.dtype())); });
}

}  // namespace tutti::cpu

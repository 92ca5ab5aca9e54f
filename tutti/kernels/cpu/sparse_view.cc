#include "tutti/kernels/cpu/sparse_view.h"

#include <algorithm>
#include <numeric>

namespace tutti::cpu {

Result<SparseView> read_sparse_indices(const Tensor& indices, const Tensor& shape) {
  if (indices.rank() != 2) return invalid_argument("sparse indices must be a matrix, got shape ", indices.shape());
  if (shape.rank() != 1) return invalid_argument("a sparse tensor's shape must be a vector, got shape ", shape.shape());
  SparseView view;
  TUTTI_RETURN_IF_ERROR(read_dims(shape, "the sparse tensor's shape", &view.dims));
  if (indices.dim(1) != view.dims.size) {
    return invalid_argument("sparse indices ", indices.shape(), " do not fit a shape of ", view.dims.size,
                            " dimensions");
  }
  view.indices = indices.data<std::int64_t>();
  view.count = indices.dim(0);
  view.rank = view.dims.size;
  return view;
}

Result<SparseView> read_sparse(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  TUTTI_ASSIGN_OR_RETURN(SparseView view, read_sparse_indices(indices, shape));
  if (values.rank() != 1) return invalid_argument("sparse values must be a vector, got shape ", values.shape());
  if (values.dim(0) != view.count) {
    return invalid_argument("sparse values ", values.shape(), " and indices ", indices.shape(),
                            " differ in the number of entries");
  }
  view.values = &values;
  return view;
}

Result<SparseView> read_sparse(KernelContext& ctx, int first) {
  return read_sparse(ctx.input(first), ctx.input(first + 1), ctx.input(first + 2));
}

Result<Shape> dense_shape(const SparseView& view) { return Shape::create(view.dims.span()); }

Status check_sparse_bounds(const SparseView& view) {
  for (std::int64_t i = 0; i < view.count; ++i) {
    for (int d = 0; d < view.rank; ++d) {
      const std::int64_t index = view.row(i)[d];
      if (index >= 0 && index < view.dims[d]) continue;
      return invalid_argument("sparse indices[", i, ", ", d, "] = ", index, " is out of bounds: need 0 <= index < ",
                              view.dims[d]);
    }
  }
  return {};
}

std::vector<std::int64_t> sorted_entries(const SparseView& view) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.count));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&view](std::int64_t a, std::int64_t b) {
    return compare_rows(view.row(a), view.row(b), view.rank) < 0;
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  return order;
}

Result<Tensor*> allocate_index_rows(KernelContext& ctx, int output, std::int64_t rows, int rank) {
  const std::int64_t dims[] = {rows, rank};
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  return ctx.allocate_output(output, shape);
}

Status set_int64_vector(KernelContext& ctx, int output, std::span<const std::int64_t> values) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(output, Shape{static_cast<std::int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), out->data<std::int64_t>());
  return {};
}

void pick_elements(const Tensor& from, std::span<const std::int64_t> order, Tensor& to) {
  with_element(from.dtype(), [&]<typename E>(const E&) {
    const E* source = static_cast<const E*>(from.raw());
    E* target = static_cast<E*>(to.raw());
    for (std::size_t i = 0; i < order.size(); ++i) target[i] = source[order[i]];
  });
}

}  // namespace tutti::cpu

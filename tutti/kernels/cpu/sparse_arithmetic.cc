#include "tutti/kernels/cpu/sparse_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

// Entry `a` of the first and `b` of the second tensor; -1: it has none there.
struct Meeting {
  std::int64_t a, b;
};

// All places that either has, in order. REQUIRES: both are in order; else what is given is in no particular one.
std::vector<Meeting> merged_entries(const SparseView& a, const SparseView& b) {
  std::vector<Meeting> merged;
  std::int64_t i = 0, j = 0;
  while (i < a.count && j < b.count) {
    const int order = compare_rows(a.row(i), b.row(j), a.rank);
    merged.push_back({order <= 0 ? i++ : -1, order >= 0 ? j++ : -1});
  }
  for (; i < a.count; ++i) merged.push_back({i, -1});
  for (; j < b.count; ++j) merged.push_back({-1, j});
  return merged;
}

Status check_same_shape(const SparseView& a, const SparseView& b) {
  if (a.rank == b.rank && std::equal(a.dims.span().begin(), a.dims.span().end(), b.dims.span().begin())) return {};
  return invalid_argument("the operands' shapes do not match: ", a.rank, " and ", b.rank,
                          " dimensions, or different sizes");
}

// The real threshold as a double: what magnitudes are compared with.
double read_threshold(const Tensor& thresh) {
  return with_real(
      thresh.dtype(),
      [&]<typename T>(T) -> double {
        if constexpr (std::is_integral_v<T>)
          return static_cast<double>(*thresh.data<T>());
        else
          return static_cast<double>(static_cast<typename ArithmeticOf<T>::type>(*thresh.data<T>()));
      },
      [] { return 0.0; });
}

template <typename T>
double magnitude(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return std::abs(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::abs(static_cast<double>(value));
  } else {
    return static_cast<double>(std::abs(value));
  }
}

// Writes index rows and values of `kept` places.
template <typename T>
Status write_merged(KernelContext& ctx, const SparseView& a, const SparseView& b, std::span<const Meeting> kept,
                    std::span<const T> values) {
  const auto count = static_cast<std::int64_t>(kept.size());
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, count, a.rank));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(1, Shape{count}));
  std::int64_t* to = indices->data<std::int64_t>();
  for (const Meeting& m : kept) {
    std::copy_n(m.a >= 0 ? a.row(m.a) : b.row(m.b), a.rank, to);
    to += a.rank;
  }
  std::copy(values.begin(), values.end(), out->data<T>());
  return {};
}

template <typename T>
Status add_entries(KernelContext& ctx, const SparseView& a, const SparseView& b, double threshold) {
  std::vector<Meeting> kept;
  std::vector<T> sums;
  for (const Meeting& m : merged_entries(a, b)) {
    T sum = m.a >= 0 ? a.values->data<T>()[m.a] : b.values->data<T>()[m.b];
    if (m.a >= 0 && m.b >= 0) {  // what comes from one side alone is never too small
      sum = add_wrapping(sum, b.values->data<T>()[m.b]);
      if (!(threshold <= magnitude(sum))) continue;
    }
    kept.push_back(m);
    sums.push_back(sum);
  }
  return write_merged<T>(ctx, a, b, kept, sums);
}

}  // namespace

Status sparse_add(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView a, read_sparse(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(const SparseView b, read_sparse(ctx, 3));
  TUTTI_RETURN_IF_ERROR(check_same_shape(a, b));
  const Tensor& thresh = ctx.input(6);
  if (thresh.rank() != 0) return invalid_argument("thresh must be a scalar, got shape ", thresh.shape());
  TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2, a.dims.span()));
  return with_number(
      a.values->dtype(), [&]<typename T>(T) -> Status { return add_entries<T>(ctx, a, b, read_threshold(thresh)); },
      [&]() -> Status { return unimplemented("no sums of ", dtype_name(a.values->dtype())); });
}

namespace {

// to[i] = grad[j] where row i of `rows` is row j of `sums`, else 0. Both are in order.
void pick_grads(const Tensor& grad, const Tensor& rows, const Tensor& sums, Tensor& to) {
  const int rank = static_cast<int>(rows.dim(1));
  const DType dtype = grad.dtype();
  zero_elements(dtype, to.raw(), to.num_elements());
  const std::int64_t *mine = rows.data<std::int64_t>(), *theirs = sums.data<std::int64_t>();
  for (std::int64_t i = 0, j = 0; i < rows.dim(0) && j < sums.dim(0);) {
    const int order = compare_rows(mine + i * rank, theirs + j * rank, rank);
    if (order == 0) copy_elements(dtype, at_element(dtype, to.raw(), i), at_element(dtype, grad.raw(), j), 1);
    i += order <= 0;
    j += order >= 0;
  }
}

}  // namespace

Status sparse_add_grad(KernelContext& ctx) {
  const Tensor &grad = ctx.input(0), &sums = ctx.input(3);
  for (int i = 1; i < 4; ++i) {
    if (ctx.input(i).rank() != 2) {
      return invalid_argument("indices of the operands and of the sum must be matrices, got ", ctx.input(i).shape());
    }
    if (ctx.input(i).dim(1) != ctx.input(1).dim(1)) {
      return invalid_argument("indices ", ctx.input(1).shape(), " and ", ctx.input(i).shape(), " differ in rank");
    }
  }
  if (grad.rank() != 1 || grad.dim(0) != sums.dim(0)) {
    return invalid_argument("backprop_val_grad ", grad.shape(), " does not fit the sum's indices ", sums.shape());
  }
  for (int i = 0; i < 2; ++i) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(i, Shape{ctx.input(1 + i).dim(0)}));
    pick_grads(grad, ctx.input(1 + i), sums, *out);
  }
  return {};
}

namespace {

Status check_dense_add(const Tensor& indices, const Tensor& values, const Tensor& shape, const Tensor& dense) {
  if (indices.rank() != 2) return invalid_argument("a_indices should be a matrix, got shape ", indices.shape());
  if (values.rank() != 1 || shape.rank() != 1) {
    return invalid_argument("a_values and a_shape should be vectors, got ", values.shape(), " and ", shape.shape());
  }
  if (values.dim(0) != indices.dim(0)) {
    return invalid_argument("a_values ", values.shape(), " and a_indices ", indices.shape(),
                            " differ in the number of entries");
  }
  bool fits = shape.dim(0) == dense.rank() && indices.dim(1) == dense.rank();
  for (int d = 0; fits && d < dense.rank(); ++d) fits = index_at(shape.raw(), shape.dtype(), d) == dense.dim(d);
  if (!fits) return invalid_argument("a_shape, a_indices ", indices.shape(), " and b ", dense.shape(), " do not agree");
  return {};
}

// The element of a tensor of this shape that a row of indices names.
Result<std::int64_t> offset_of_row(const Tensor& indices, std::int64_t row, const Shape& shape) {
  std::int64_t offset = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t index = index_at(indices.raw(), indices.dtype(), row * shape.rank() + d);
    if (index < 0 || index >= shape.dim(d)) {
      return invalid_argument("indices[", row, ", ", d, "] = ", index, " is out of bounds of ", shape);
    }
    offset = offset * shape.dim(d) + index;
  }
  return offset;
}

}  // namespace

Status sparse_tensor_dense_add(KernelContext& ctx) {
  const Tensor &indices = ctx.input(0), &values = ctx.input(1), &dense = ctx.input(3);
  TUTTI_RETURN_IF_ERROR(check_dense_add(indices, values, ctx.input(2), dense));
  const DType dtype = dense.dtype();
  const BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, dtype);
  if (!add) return unimplemented("no sums of ", dtype_name(dtype));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, dense.shape()));
  copy_elements(dtype, out->raw(), dense.raw(), dense.num_elements());
  for (std::int64_t i = 0; i < values.dim(0); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t offset, offset_of_row(indices, i, dense.shape()));
    void* to = at_element(dtype, out->raw(), offset);
    add(to, at_element(dtype, values.raw(), i), to, 1, 1, 1);
  }
  return {};
}

namespace {

// Where in the dense operand, which is broadcast to the sparse one's shape, entry `row` finds its partner.
std::int64_t broadcast_offset(const std::int64_t* row, const Shape& dense, int rank) {
  std::int64_t offset = 0;
  for (int d = 0; d < dense.rank(); ++d) {
    offset = offset * dense.dim(d) + (dense.dim(d) == 1 ? 0 : row[rank - dense.rank() + d]);
  }
  return offset;
}

// Of every dtype, as TensorFlow refuses them; integers would trap.
Status check_no_zeros(const Tensor& divisors) {
  return with_number(
      divisors.dtype(),
      [&]<typename T>(T) -> Status {
        for (const T& divisor : divisors.flat<T>()) {
          if (divisor == T{}) {
            return invalid_argument("SparseDenseCwiseDiv cannot divide by zero, but input dense tensor contains zero");
          }
        }
        return {};
      },
      []() -> Status { return {}; });
}

Status sparse_dense_binary(KernelContext& ctx, BinaryOp op) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
  const Tensor& dense = ctx.input(3);
  TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
  bool fits = dense.rank() <= view.rank;
  for (int d = 0; fits && d < dense.rank(); ++d) {
    fits = dense.dim(d) == 1 || dense.dim(d) == view.dims[view.rank - dense.rank() + d];
  }
  if (!fits || (view.count > 0 && dense.num_elements() == 0)) {
    return invalid_argument("the dense side of shape ", dense.shape(), " cannot be broadcast to the sparse side of ",
                            view.rank, " dimensions");
  }
  TUTTI_RETURN_IF_ERROR(check_sparse_bounds(view));
  const DType dtype = dense.dtype();
  const BinaryFunction function = BinaryFunction::find(op, dtype);
  if (!function) return unimplemented("no arithmetic on ", dtype_name(dtype));
  TUTTI_ASSIGN_OR_RETURN(Tensor partners, ctx.allocate_temp(dtype, Shape{view.count}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{view.count}));
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(view.count));
  for (std::int64_t i = 0; i < view.count; ++i) {
    offsets[static_cast<std::size_t>(i)] = broadcast_offset(view.row(i), dense.shape(), view.rank);
  }
  pick_elements(dense, offsets, partners);
  if (op == BinaryOp::kDiv) TUTTI_RETURN_IF_ERROR(check_no_zeros(partners));
  if (view.count > 0) function(view.values->raw(), partners.raw(), out->raw(), view.count, 1, 1);
  return {};
}

}  // namespace

Status sparse_dense_add(KernelContext& ctx) { return sparse_dense_binary(ctx, BinaryOp::kAdd); }
Status sparse_dense_multiply(KernelContext& ctx) { return sparse_dense_binary(ctx, BinaryOp::kMul); }
Status sparse_dense_divide(KernelContext& ctx) { return sparse_dense_binary(ctx, BinaryOp::kDiv); }

namespace {

template <typename T>
void softmax_run(const T* in, std::int64_t count, T* out) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Wide largest = -std::numeric_limits<Wide>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<Wide>(in[i]));
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<Wide>(in[i]) - largest);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(std::exp(static_cast<Wide>(in[i]) - largest) / sum);
}

}  // namespace

Status sparse_softmax(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
  if (view.rank < 2) return invalid_argument("the input should have at least 2 dimensions, got ", view.rank);
  TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{view.count}));
  return with_real(
      out->dtype(),
      [&]<typename T>(T) -> Status {
        if constexpr (!std::is_integral_v<T>) {
          for (std::int64_t begin = 0, end = 0; begin < view.count; begin = end) {
            while (end < view.count && compare_rows(view.row(begin), view.row(end), view.rank - 1) == 0) ++end;
            softmax_run(view.values->data<T>() + begin, end - begin, out->data<T>() + begin);
          }
          return {};
        }
        return unimplemented("no softmax of integers");
      },
      [&]() -> Status { return unimplemented("no softmax of ", dtype_name(out->dtype())); });
}

namespace {

// Where one of them has no entry it counts as 0.
template <bool kLargest>
Status sparse_extreme(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView a, read_sparse(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(const SparseView b, read_sparse(ctx, 3));
  TUTTI_RETURN_IF_ERROR(check_same_shape(a, b));
  return with_real(
      a.values->dtype(),
      [&]<typename T>(T) -> Status {
        const std::vector<Meeting> all = merged_entries(a, b);
        std::vector<T> values;
        for (const Meeting& m : all) {
          const T x = m.a >= 0 ? a.values->data<T>()[m.a] : T{};
          const T y = m.b >= 0 ? b.values->data<T>()[m.b] : T{};
          values.push_back((kLargest ? x < y : y < x) ? y : x);
        }
        return write_merged<T>(ctx, a, b, all, values);
      },
      [&]() -> Status { return unimplemented("no order of ", dtype_name(a.values->dtype())); });
}

}  // namespace

Status sparse_maximum(KernelContext& ctx) { return sparse_extreme<true>(ctx); }
Status sparse_minimum(KernelContext& ctx) { return sparse_extreme<false>(ctx); }

}  // namespace tutti::cpu

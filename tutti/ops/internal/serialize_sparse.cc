#include "tutti/ops/internal/serialize_sparse.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tutti/core/tensor_variant.h"
#include "tutti/graph/tensor_bytes.h"
#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::internal {

namespace {

using cpu::SparseView;

// Element i of `out`, a string or variant, gets `tensor`.
Status put(Tensor& out, std::int64_t i, Tensor tensor) {
  if (out.dtype() == DType::kString) {
    TUTTI_ASSIGN_OR_RETURN(out.data<std::string>()[i], tensor_to_bytes(tensor, StringElements::kPacked));
    return {};
  }
  if (tensor.dtype() == DType::kVariant) return unimplemented("variants within variants");
  out.data<Variant>()[i] = Variant(std::make_shared<TensorVariant>(std::move(tensor)));
  return {};
}

Result<Tensor> take(const Tensor& from, std::int64_t i) {
  if (from.dtype() == DType::kString) return tensor_from_bytes(from.data<std::string>()[i]);
  const auto* held = from.data<Variant>()[i].get<TensorVariant>();
  if (held == nullptr) return invalid_argument("serialized_sparse[", i, "] holds no tensor");
  return held->tensor();
}

// In order and inside the shape, as TensorFlow asks here.
Status check_entries(const SparseView& view) {
  TUTTI_RETURN_IF_ERROR(cpu::check_sparse_bounds(view));
  for (std::int64_t i = 1; i < view.count; ++i) {
    const int order = cpu::compare_rows(view.row(i - 1), view.row(i), view.rank);
    if (order >= 0) {
      return invalid_argument("indices[", i, "] is ", order == 0 ? "repeated" : "out of order",
                              ". Many sparse ops require sorted indices.");
    }
  }
  return {};
}

// Entries [begin, end) without their first index.
Status put_row(KernelContext& ctx, const SparseView& view, std::int64_t begin, std::int64_t end, Tensor& out,
               std::int64_t at) {
  const std::int64_t rank = view.rank - 1;
  TUTTI_ASSIGN_OR_RETURN(Tensor indices, ctx.allocate_temp(DType::kInt64, Shape{end - begin, rank}));
  TUTTI_ASSIGN_OR_RETURN(Tensor shape, ctx.allocate_temp(DType::kInt64, Shape{rank}));
  std::int64_t* to = indices.data<std::int64_t>();
  for (std::int64_t i = begin; i < end; ++i, to += rank) std::copy_n(view.row(i) + 1, rank, to);
  std::copy_n(view.dims.span().begin() + 1, rank, shape.data<std::int64_t>());
  TUTTI_RETURN_IF_ERROR(put(out, at, std::move(indices)));
  TUTTI_RETURN_IF_ERROR(put(out, at + 1, view.values->slice(begin, end)));
  return put(out, at + 2, std::move(shape));
}

}  // namespace

Status serialize_sparse(KernelContext& ctx) {
  // As in TensorFlow, that the three fit each other is for who reads them to see.
  if (ctx.input(0).rank() != 2 || ctx.input(1).rank() != 1 || ctx.input(2).rank() != 1) {
    return invalid_argument("indices should be a matrix, values and shape vectors, got ", ctx.input(0).shape(), ", ",
                            ctx.input(1).shape(), " and ", ctx.input(2).shape());
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{3}));
  for (int i = 0; i < 3; ++i) TUTTI_RETURN_IF_ERROR(put(*out, i, ctx.input(i)));
  return {};
}

Status serialize_many_sparse(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, cpu::read_sparse(ctx, 0));
  if (view.rank < 2) return invalid_argument("the rank of the sparse tensor should be > 1, but is ", view.rank);
  TUTTI_RETURN_IF_ERROR(cpu::dense_shape(view).status());
  TUTTI_RETURN_IF_ERROR(check_entries(view));
  const std::int64_t rows = view.dims[0];
  const std::int64_t dims[] = {rows, 3};
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  std::int64_t begin = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t end = begin;
    while (end < view.count && view.row(end)[0] == r) ++end;
    TUTTI_RETURN_IF_ERROR(put_row(ctx, view, begin, end, *out, 3 * r));
    begin = end;
  }
  return {};
}

namespace {

struct SparseParts {
  Tensor indices, values, shape;
};

Result<SparseParts> take_parts(const Tensor& from, std::int64_t at, DType dtype) {
  SparseParts parts;
  TUTTI_ASSIGN_OR_RETURN(parts.indices, take(from, at));
  TUTTI_ASSIGN_OR_RETURN(parts.values, take(from, at + 1));
  TUTTI_ASSIGN_OR_RETURN(parts.shape, take(from, at + 2));
  if (parts.indices.dtype() != DType::kInt64 || parts.shape.dtype() != DType::kInt64) {
    return invalid_argument("indices and shape of sparse tensor ", at / 3, " must be int64, not ",
                            dtype_name(parts.indices.dtype()), " and ", dtype_name(parts.shape.dtype()));
  }
  if (parts.values.dtype() != dtype) {
    return invalid_argument("Requested SparseTensor of type ", dtype_name(dtype), " but SparseTensor[", at / 3,
                            "].values.dtype() == ", dtype_name(parts.values.dtype()));
  }
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, cpu::read_sparse(parts.indices, parts.values, parts.shape));
  TUTTI_RETURN_IF_ERROR(cpu::dense_shape(view).status());
  return parts;
}

// The tensors of all but the last dimension of the input, under each other: their place there comes before their
// indices, and the shape is as large as the largest.
class Stack {
 public:
  explicit Stack(const Tensor& from) : from_(from) {
    for (int d = 0; d + 1 < from.rank(); ++d) outer_.push_back(from.dim(d));
  }

  Status read(DType dtype) {
    for (std::int64_t at = 0; at < from_.num_elements(); at += 3) {
      TUTTI_ASSIGN_OR_RETURN(SparseParts part, take_parts(from_, at, dtype));
      const std::span<const std::int64_t> sizes = part.shape.flat<std::int64_t>();
      if (at == 0) largest_.assign(sizes.begin(), sizes.end());
      if (sizes.size() != largest_.size()) {
        return invalid_argument("Inconsistent shape across SparseTensors: rank prior to SparseTensor[", at / 3,
                                "] was: ", largest_.size(), " but rank of SparseTensor[", at / 3,
                                "] is: ", sizes.size());
      }
      for (std::size_t d = 0; d < sizes.size(); ++d) largest_[d] = std::max(largest_[d], sizes[d]);
      count_ += part.values.num_elements();
      parts_.push_back(std::move(part));
    }
    return {};
  }

  Status write(KernelContext& ctx) const {
    const int rank = static_cast<int>(outer_.size() + largest_.size());
    std::vector<std::int64_t> shape = outer_;
    shape.insert(shape.end(), largest_.begin(), largest_.end());
    TUTTI_RETURN_IF_ERROR(Shape::create(shape).status());
    TUTTI_RETURN_IF_ERROR(cpu::set_int64_vector(ctx, 2, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * indices, cpu::allocate_index_rows(ctx, 0, count_, rank));
    TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{count_}));
    std::int64_t filled = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Tensor& part = parts_[p].values;
      copy_rows(p, indices->data<std::int64_t>() + filled * rank);
      cpu::copy_elements(part.dtype(), cpu::at_element(part.dtype(), values->raw(), filled), part.raw(),
                         part.num_elements());
      filled += part.num_elements();
    }
    return {};
  }

 private:
  void copy_rows(std::size_t p, std::int64_t* to) const {
    std::vector<std::int64_t> place(outer_.size());
    auto rest = static_cast<std::int64_t>(p);
    for (std::size_t d = outer_.size(); d-- > 0; rest /= outer_[d]) place[d] = rest % outer_[d];
    const std::int64_t* from = parts_[p].indices.data<std::int64_t>();
    for (std::int64_t i = 0; i < parts_[p].values.num_elements(); ++i) {
      to = std::copy(place.begin(), place.end(), to);
      to = std::copy_n(from, largest_.size(), to);
      from += largest_.size();
    }
  }

  const Tensor& from_;
  std::vector<std::int64_t> outer_, largest_;
  std::vector<SparseParts> parts_;
  std::int64_t count_ = 0;
};

}  // namespace

Status deserialize_sparse(KernelContext& ctx) {
  const Tensor& from = ctx.input(0);
  if (from.rank() < 1 || from.dim(from.rank() - 1) != 3) {
    return invalid_argument("Serialized sparse should have non-zero rank and 3 as the last dimension, got ",
                            from.shape());
  }
  if (from.num_elements() == 0) {
    return invalid_argument("Serialized sparse should have at least 1 serialized tensor, but has a zero dimension ",
                            from.shape());
  }
  Stack stack(from);
  TUTTI_RETURN_IF_ERROR(stack.read(ctx.output_type(1)));
  return stack.write(ctx);
}

Status deserialize_many_sparse(KernelContext& ctx) {
  if (ctx.input(0).rank() != 2) {
    return invalid_argument("serialized_sparse should be a matrix, got shape ", ctx.input(0).shape());
  }
  return deserialize_sparse(ctx);
}

}  // namespace tutti::internal

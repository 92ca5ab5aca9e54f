#include "tutti/kernels/cpu/sparse_structure.h"

#include <algorithm>
#include <memory>

#include "tutti/kernels/cpu/sparse_view.h"

namespace tutti::cpu {

namespace {

// Indices may be anything: products wrap instead of overflowing.
std::int64_t wrapping_multiply_add(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) +
                                   static_cast<std::uint64_t>(c));
}

// `new_shape` with its -1, where it has one, replaced by what the other dimensions leave of `elements`.
Result<Shape> completed_shape(const Tensor& new_shape, std::int64_t elements) {
  DimList dims;
  TUTTI_RETURN_IF_ERROR(read_dims(new_shape, "new_shape", &dims));
  int open = -1;
  for (int d = 0; d < dims.size; ++d) {
    if (dims[d] != -1) continue;
    if (open >= 0) return invalid_argument("only one output dimension may be -1, not both ", open, " and ", d);
    open = d;
    dims[d] = 1;
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::create(dims.span()));
  if (open >= 0) {
    if (shape.num_elements() == 0) {
      return invalid_argument("reshape cannot infer the missing size of an empty tensor unless all given sizes are",
                              " non-zero");
    }
    dims[open] = elements / shape.num_elements();
    TUTTI_ASSIGN_OR_RETURN(shape, Shape::create(dims.span()));
  }
  if (shape.num_elements() != elements) {
    return invalid_argument("the input is a tensor of ", elements, " dense values, but the requested shape ", shape,
                            " has ", shape.num_elements());
  }
  return shape;
}

void reshape_rows(const SparseView& view, const Shape& from, const Shape& to, std::int64_t* out) {
  DimList in_strides, out_strides;
  strides_of(from, &in_strides);
  strides_of(to, &out_strides);
  for (std::int64_t i = 0; i < view.count; ++i, out += to.rank()) {
    std::int64_t place = 0;
    for (int d = 0; d < from.rank(); ++d) place = wrapping_multiply_add(view.row(i)[d], in_strides[d], place);
    for (int d = 0; d < to.rank(); ++d) {
      out[d] = place / out_strides[d];
      place %= out_strides[d];
    }
  }
}

}  // namespace

Status sparse_reshape(KernelContext& ctx) {
  const Tensor& new_shape = ctx.input(2);
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse_indices(ctx.input(0), ctx.input(1)));
  if (new_shape.rank() != 1) return invalid_argument("new_shape must be a vector, got shape ", new_shape.shape());
  TUTTI_ASSIGN_OR_RETURN(const Shape from, dense_shape(view));
  TUTTI_ASSIGN_OR_RETURN(const Shape to, completed_shape(new_shape, from.num_elements()));
  TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 1, to.dims()));
  if (from == to) {
    ctx.set_output(0, ctx.input(0));
    return {};
  }
  if (view.count > 0 && from.num_elements() == 0) {
    return invalid_argument("the input has ", view.count, " entries, but its shape ", from, " has no elements");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_index_rows(ctx, 0, view.count, to.rank()));
  if (view.count > 0) reshape_rows(view, from, to, out->data<std::int64_t>());
  return {};
}

Status sparse_reorder(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
  TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
  const std::vector<std::int64_t> order = sorted_entries(view);
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, 0, view.count, view.rank));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, ctx.input(1).shape()));
  std::int64_t* to = indices->data<std::int64_t>();
  for (std::size_t i = 0; i < order.size(); ++i, to += view.rank) std::copy_n(view.row(order[i]), view.rank, to);
  pick_elements(*view.values, order, *values);
  return {};
}

namespace {

// Writes the entries `chosen` of `view`, moved by -start, as outputs `first` (indices) and `second` (values).
Status write_entries(KernelContext& ctx, const SparseView& view, std::span<const std::int64_t> chosen,
                     std::span<const std::int64_t> start, int first, int second) {
  const auto count = static_cast<std::int64_t>(chosen.size());
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, allocate_index_rows(ctx, first, count, view.rank));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(second, Shape{count}));
  std::int64_t* to = indices->data<std::int64_t>();
  for (const std::int64_t entry : chosen) {
    for (int d = 0; d < view.rank; ++d) *to++ = view.row(entry)[d] - start[static_cast<std::size_t>(d)];
  }
  pick_elements(*view.values, chosen, *values);
  return {};
}

bool lies_within(const std::int64_t* row, const DimList& start, const DimList& size) {
  for (int d = 0; d < start.size; ++d) {
    if (row[d] < start[d] || row[d] - start[d] >= size[d]) return false;
  }
  return true;
}

}  // namespace

Status sparse_slice(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 0));
  if (ctx.input(3).rank() != 1 || ctx.input(4).rank() != 1) {
    return invalid_argument("start and size must be vectors, got ", ctx.input(3).shape(), " and ",
                            ctx.input(4).shape());
  }
  DimList start, size;
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(3), "start", &start));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(4), "size", &size));
  if (start.size != view.rank || size.size != view.rank) {
    return invalid_argument("expected start and size of ", view.rank, " elements, got ", start.size, " and ",
                            size.size);
  }
  TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
  // What lies beyond the tensor's end is cut off.
  DimList shape = view.dims;
  for (int d = 0; d < view.rank; ++d) {
    if (size[d] < 0) return invalid_argument("size[", d, "] = ", size[d], " is negative");
    std::int64_t left = 0;  // from a start that may lie before the tensor's
    if (__builtin_sub_overflow(view.dims[d], start[d], &left)) {
      return invalid_argument("start[", d, "] = ", start[d], " is too far from the tensor's shape");
    }
    shape[d] = std::max<std::int64_t>(std::min(size[d], left), 0);
  }
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < view.count; ++i) {
    if (lies_within(view.row(i), start, shape)) chosen.push_back(i);
  }
  TUTTI_RETURN_IF_ERROR(write_entries(ctx, view, chosen, start.span(), 0, 1));
  return set_int64_vector(ctx, 2, shape.span());
}

namespace {

Status check_slice_grad(const Tensor& grad, const Tensor& from, const Tensor& start, const Tensor& to) {
  if (from.rank() != 2 || to.rank() != 2) {
    return invalid_argument("input and output indices must be matrices, got ", from.shape(), " and ", to.shape());
  }
  if (grad.rank() != 1 || start.rank() != 1) {
    return invalid_argument("backprop_val_grad and input_start must be vectors, got ", grad.shape(), " and ",
                            start.shape());
  }
  if (from.dim(1) != to.dim(1) || from.dim(1) != start.dim(0)) {
    return invalid_argument("input indices ", from.shape(), ", output indices ", to.shape(), " and input_start ",
                            start.shape(), " differ in rank");
  }
  if (grad.dim(0) != to.dim(0)) {
    return invalid_argument("backprop_val_grad ", grad.shape(), " and output indices ", to.shape(),
                            " differ in the number of entries");
  }
  return {};
}

}  // namespace

Status sparse_slice_grad(KernelContext& ctx) {
  const Tensor &grad = ctx.input(0), &from = ctx.input(1), &start = ctx.input(2), &to = ctx.input(3);
  TUTTI_RETURN_IF_ERROR(check_slice_grad(grad, from, start, to));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{from.dim(0)}));
  zero_elements(out->dtype(), out->raw(), out->num_elements());
  const std::int64_t rank = from.dim(1), kept = to.dim(0);
  const std::int64_t *inside = from.data<std::int64_t>(), *offset = start.data<std::int64_t>();
  const std::int64_t* sliced = to.data<std::int64_t>();
  // Both lists are in order: what the slice kept is found in one walk.
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < from.dim(0) && next < kept; ++i) {
    bool same = true;
    for (std::int64_t d = 0; d < rank && same; ++d) {
      same = inside[i * rank + d] == wrapping_multiply_add(1, sliced[next * rank + d], offset[d]);
    }
    if (!same) continue;
    copy_elements(grad.dtype(), at_element(grad.dtype(), out->raw(), i), at_element(grad.dtype(), grad.raw(), next), 1);
    ++next;
  }
  return {};
}

namespace {

class SparseConcat : public Kernel {
 public:
  explicit SparseConcat(const KernelInit& init)
      : axis_(init.attr<std::int64_t>("concat_dim")), parts_(static_cast<int>(init.attr<std::int64_t>("N"))) {}

  Status compute(KernelContext& ctx) override {
    std::vector<SparseView> parts;
    for (int i = 0; i < parts_; ++i) {
      TUTTI_ASSIGN_OR_RETURN(SparseView part,
                             read_sparse(ctx.input(i), ctx.input(parts_ + i), ctx.input(2 * parts_ + i)));
      TUTTI_RETURN_IF_ERROR(dense_shape(part).status());
      parts.push_back(part);
    }
    TUTTI_ASSIGN_OR_RETURN(const int axis, normalise_axis(axis_, parts[0].rank));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, joined_shape(parts, axis));
    TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2, shape.dims()));
    return write_joined(ctx, parts, axis);
  }

 private:
  static Result<Shape> joined_shape(const std::vector<SparseView>& parts, int axis) {
    DimList dims = parts[0].dims;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].rank != dims.size) {
        return invalid_argument("ranks of all inputs must be equal: input 0 has ", dims.size, " dimensions, input ", i,
                                " has ", parts[i].rank);
      }
      for (int d = 0; d < dims.size; ++d) {
        if (d != axis && parts[i].dims[d] != dims[d]) {
          return invalid_argument("inputs 0 and ", i, " have sizes ", dims[d], " and ", parts[i].dims[d],
                                  " in dimension ", d, ", which is not concatenated");
        }
      }
      if (__builtin_add_overflow(dims[axis], parts[i].dims[axis], &dims[axis])) {
        return invalid_argument("the concatenated dimension ", axis, " is too large");
      }
    }
    return Shape::create(dims.span());
  }

  // All entries under each other, then in order.
  static Status write_joined(KernelContext& ctx, const std::vector<SparseView>& parts, int axis) {
    SparseView all;
    all.rank = parts[0].rank;
    for (const SparseView& part : parts) all.count += part.count;
    TUTTI_ASSIGN_OR_RETURN(Tensor rows, ctx.allocate_temp(DType::kInt64, Shape{all.count * all.rank}));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, ctx.allocate_temp(parts[0].values->dtype(), Shape{all.count}));
    std::int64_t* to = rows.data<std::int64_t>();
    std::int64_t offset = 0, filled = 0;
    for (const SparseView& part : parts) {
      for (std::int64_t i = 0; i < part.count; ++i, to += all.rank) {
        std::copy_n(part.row(i), all.rank, to);
        to[axis] = wrapping_multiply_add(1, to[axis], offset);
      }
      copy_elements(values.dtype(), at_element(values.dtype(), values.raw(), filled), part.values->raw(), part.count);
      offset += part.dims[axis];
      filled += part.count;
    }
    all.indices = rows.data<std::int64_t>();
    all.values = &values;
    const std::vector<std::int64_t> zeros(static_cast<std::size_t>(all.rank), 0);
    return write_entries(ctx, all, sorted_entries(all), zeros, 0, 1);
  }

  const std::int64_t axis_;
  const int parts_;
};

}  // namespace

KernelFactory sparse_concat_kernel() { return kernel_of<SparseConcat>(); }

Status sparse_split(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t given, read_scalar_integer(ctx.input(0), "split_dim"));
  TUTTI_ASSIGN_OR_RETURN(const SparseView view, read_sparse(ctx, 1));
  TUTTI_RETURN_IF_ERROR(dense_shape(view).status());
  TUTTI_ASSIGN_OR_RETURN(const int axis, normalise_axis(given, view.rank));
  const int parts = ctx.num_outputs() / 3;
  const std::int64_t length = view.dims[axis];
  if (parts > length) {
    return invalid_argument("num_split ", parts, " is not in [1, ", length, "], the size of dimension ", axis);
  }
  TUTTI_RETURN_IF_ERROR(check_sparse_bounds(view));
  // The first `longer` parts have one more than the others.
  const std::int64_t size = length / parts, longer = length % parts;
  std::vector<std::vector<std::int64_t>> chosen(static_cast<std::size_t>(parts));
  const auto start_of = [&](std::int64_t part) { return part * size + std::min(part, longer); };
  for (std::int64_t i = 0; i < view.count; ++i) {
    const std::int64_t at = view.row(i)[axis];
    const std::int64_t long_end = longer * (size + 1);
    chosen[static_cast<std::size_t>(at < long_end ? at / (size + 1) : longer + (at - long_end) / size)].push_back(i);
  }
  for (int part = 0; part < parts; ++part) {
    DimList shape = view.dims;
    shape[axis] = start_of(part + 1) - start_of(part);
    std::vector<std::int64_t> start(static_cast<std::size_t>(view.rank), 0);
    start[static_cast<std::size_t>(axis)] = start_of(part);
    TUTTI_RETURN_IF_ERROR(write_entries(ctx, view, chosen[static_cast<std::size_t>(part)], start, part, parts + part));
    TUTTI_RETURN_IF_ERROR(set_int64_vector(ctx, 2 * parts + part, shape.span()));
  }
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/shapes.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {

namespace {

Status set_integers(KernelContext& ctx, int i, std::span<const std::int64_t> values, const Shape& shape,
                    std::string_view what) {
  TUTTI_RETURN_IF_ERROR(check_fits(values, ctx.output_type(i), what));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(i, shape));
  write_indices(values, *out);
  return {};
}

}  // namespace

Status shape_of(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Shape& shape = ctx.input(i).shape();
    TUTTI_RETURN_IF_ERROR(set_integers(ctx, i, shape.dims(), Shape{shape.rank()}, "dimension"));
  }
  return {};
}

Status size_of(KernelContext& ctx) {
  const std::int64_t size = ctx.input(0).num_elements();
  return set_integers(ctx, 0, {&size, 1}, Shape{}, "size");
}

Status rank_of(KernelContext& ctx) {
  const std::int64_t rank = ctx.input(0).rank();
  return set_integers(ctx, 0, {&rank, 1}, Shape{}, "rank");
}

namespace {

// The product of the dimensions that are not 0.
Result<std::int64_t> nonzero_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t dim : shape.dims()) {
    if (dim != 0 && __builtin_mul_overflow(product, dim, &product)) {
      return invalid_argument("the dimensions of ", shape, " are too large to infer one from them");
    }
  }
  return product;
}

}  // namespace

Status reshape(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  DimList dims;
  if (ctx.input(1).rank() > 1) {  // a scalar is a vector of one, as it was for the oldest graphs
    return invalid_argument("sizes input must be 1-D, not ", ctx.input(1).shape());
  }
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "shape", &dims));
  int open = -1;
  bool has_zero = false;
  std::int64_t product = 1;  // of what is neither open nor 0
  for (int i = 0; i < dims.size; ++i) {
    if (dims[i] == -1) {
      if (open >= 0) return invalid_argument("Only one input size may be -1, not both ", open, " and ", i);
      open = i;
    } else if (dims[i] < 0) {
      return invalid_argument("Size ", i, " must be non-negative, not ", dims[i]);
    } else if (dims[i] == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(product, dims[i], &product)) {
      return invalid_argument("requested shape [", str_join(dims.span(), ","), "] has too many elements");
    }
  }
  const std::int64_t count = input.num_elements();
  if (open >= 0) {
    // Where both have dimensions of 0, the open one follows from the others.
    std::int64_t rest = count;
    if (has_zero) {
      TUTTI_ASSIGN_OR_RETURN(rest, nonzero_elements(input.shape()));
    }
    if (rest % product != 0 && !(has_zero && count == 0)) {
      return invalid_argument("Input to reshape is a tensor with ", count,
                              " values, but the requested shape requires a multiple of ", product);
    }
    dims[open] = rest / product;
    product *= dims[open];
  }
  if ((has_zero ? 0 : product) != count) {
    return invalid_argument("Input to reshape is a tensor with ", count, " values, but the requested shape has ",
                            has_zero ? 0 : product);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  ctx.set_output(0, input.reshaped(shape));
  return {};
}

Status expand_dims(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t dim, read_integer(ctx.input(1), "dim"));
  const int rank = input.rank();
  if (dim < -1 - rank || dim > rank) {
    return invalid_argument("Tried to expand dim index ", dim, " for tensor with ", rank, " dimensions.");
  }
  if (rank == kMaxRank) return invalid_argument("a tensor of ", rank, " dimensions cannot be expanded");
  const int at = static_cast<int>(dim < 0 ? dim + rank + 1 : dim);
  DimList dims;
  for (int i = 0; i < at; ++i) dims.push_back(input.dim(i));
  dims.push_back(1);
  for (int i = at; i < rank; ++i) dims.push_back(input.dim(i));
  ctx.set_output(0, input.reshaped(Shape(dims.span())));
  return {};
}

namespace {

class Squeeze : public Kernel {
 public:
  explicit Squeeze(const KernelInit& init) : axes_(init.attr<std::vector<std::int64_t>>("squeeze_dims")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    std::array<bool, kMaxRank> drop;
    for (int i = 0; i < input.rank(); ++i) drop[i] = axes_.empty() && input.dim(i) == 1;
    for (const std::int64_t axis : axes_) {
      TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, input.rank()));
      if (input.dim(at) != 1) {
        return invalid_argument("Can not squeeze dim[", at, "], expected a dimension of 1, got ", input.dim(at));
      }
      drop[at] = true;
    }
    DimList dims;
    for (int i = 0; i < input.rank(); ++i) {
      if (!drop[i]) dims.push_back(input.dim(i));
    }
    ctx.set_output(0, input.reshaped(Shape(dims.span())));
    return {};
  }

 private:
  const std::vector<std::int64_t> axes_;
};

class EnsureShape : public Kernel {
 public:
  explicit EnsureShape(const KernelInit& init) : shape_(init.attr<PartialShape>("shape")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    if (!shape_.compatible_with(input.shape())) {
      return invalid_argument("Shape of the tensor ", input.shape(), " is not compatible with expected shape ", shape_,
                              ".");
    }
    ctx.set_output(0, input);
    return {};
  }

 private:
  const PartialShape shape_;
};

class Bitcast : public Kernel {
 public:
  explicit Bitcast(const KernelInit& init) : dtype_(init.attr<DType>("type")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    const std::int64_t from = static_cast<std::int64_t>(dtype_size(input.dtype()));
    const std::int64_t to = static_cast<std::int64_t>(dtype_size(dtype_));
    if (from == 0 || to == 0) return invalid_argument("only fixed-size elements can be reinterpreted");
    DimList dims;
    for (const std::int64_t dim : input.shape().dims()) dims.push_back(dim);
    if (from > to) {
      if (dims.size == kMaxRank) return invalid_argument("a tensor of ", kMaxRank, " dimensions cannot get another");
      dims.push_back(from / to);
    } else if (from < to) {
      if (dims.size == 0 || dims[dims.size - 1] != to / from) {
        return invalid_argument("Cannot bitcast from ", dtype_name(input.dtype()), " to ", dtype_name(dtype_),
                                ": the last dimension of ", input.shape(), " must be ", to / from);
      }
      --dims.size;
    }
    TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::create(dims.span()));
    const std::size_t offset =
        input.buffer() ? static_cast<const char*>(input.raw()) - static_cast<const char*>(input.buffer()->data()) : 0;
    ctx.set_output(0, Tensor(dtype_, std::move(shape), input.buffer(), offset));
    return {};
  }

 private:
  const DType dtype_;
};

}  // namespace

KernelFactory squeeze_kernel() { return kernel_of<Squeeze>(); }
KernelFactory ensure_shape_kernel() { return kernel_of<EnsureShape>(); }
KernelFactory bitcast_kernel() { return kernel_of<Bitcast>(); }

Status invert_permutation(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  if (input.rank() != 1) return invalid_argument("invert_permutation expects a 1D vector, not ", input.shape());
  const std::int64_t count = input.num_elements();
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
  const auto invert = [&]<typename T>(const T* from, T* to) -> Status {
    std::fill_n(to, count, T{-1});
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t target = from[i];
      if (target < 0 || target >= count) return invalid_argument(target, " is not between 0 and ", count);
      if (to[target] != -1) return invalid_argument(target, " is duplicated in the input.");
      to[target] = static_cast<T>(i);
    }
    return {};
  };
  if (input.dtype() == DType::kInt32) return invert(input.data<std::int32_t>(), out->data<std::int32_t>());
  return invert(input.data<std::int64_t>(), out->data<std::int64_t>());
}

Status concat_offset(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_scalar_integer(ctx.input(0), "concat_dim"));
  DimList first;
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "shape", &first));
  TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, first.size));
  std::int64_t offset = 0;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    DimList dims;
    if (ctx.input(i).rank() != 1) {
      return invalid_argument("input ", i, " should be a vector, but got shape ", ctx.input(i).shape());
    }
    TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(i), "shape", &dims));
    bool fits = dims.size == first.size;
    for (int d = 0; fits && d < dims.size; ++d) fits = d == at || dims[d] == first[d];
    if (!fits) {
      return invalid_argument("shape ", i - 1, " [", str_join(dims.span(), ","), "] differs from [",
                              str_join(first.span(), ","), "] outside dimension ", at);
    }
    DimList offsets;
    offsets.size = dims.size;
    std::fill_n(offsets.values.begin(), dims.size, 0);
    offsets[at] = offset;
    TUTTI_RETURN_IF_ERROR(set_integers(ctx, i - 1, offsets.span(), Shape{dims.size}, "offset"));
    if (__builtin_add_overflow(offset, dims[at], &offset)) return invalid_argument("offsets do not fit in 64 bits");
  }
  return {};
}

namespace {

Status incompatible(const DimList& a, const DimList& b) {
  return invalid_argument("Incompatible shapes: [", str_join(a.span(), ","), "] vs. [", str_join(b.span(), ","), "]");
}

// Dimension i of `dims` when it is led by ones up to `rank`.
std::int64_t aligned(const DimList& dims, int rank, int i) {
  const int at = i - (rank - dims.size);
  return at < 0 ? 1 : dims[at];
}

Status check_vectors(KernelContext& ctx) {
  for (int i = 0; i < 2; ++i) {
    if (ctx.input(i).rank() != 1) {
      return invalid_argument("In[", i, "] must be a vector, not of shape ", ctx.input(i).shape());
    }
  }
  return {};
}

}  // namespace

Status broadcast_args(KernelContext& ctx) {
  DimList a, b, out;
  TUTTI_RETURN_IF_ERROR(check_vectors(ctx));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(0), "s0", &a));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "s1", &b));
  const int rank = std::max(a.size, b.size);
  for (int i = 0; i < rank; ++i) {
    const std::int64_t x = aligned(a, rank, i);
    const std::int64_t y = aligned(b, rank, i);
    if (x != y && x != 1 && y != 1) return incompatible(a, b);
    out.push_back(x == 1 ? y : x);
  }
  return set_integers(ctx, 0, out.span(), Shape{rank}, "dimension");
}

Status broadcast_gradient_args(KernelContext& ctx) {
  DimList a, b, sum_a, sum_b;
  TUTTI_RETURN_IF_ERROR(check_vectors(ctx));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(0), "s0", &a));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "s1", &b));
  const int rank = std::max(a.size, b.size);
  const bool equal = std::ranges::equal(a.span(), b.span());
  for (int i = 0; !equal && i < rank; ++i) {
    const std::int64_t x = aligned(a, rank, i);
    const std::int64_t y = aligned(b, rank, i);
    if (x != y && x != 1 && y != 1) return incompatible(a, b);
    // Where both are 1 it changes nothing, and TensorFlow lists the axis for both.
    if (x == 1) sum_a.push_back(i);
    if (y == 1) sum_b.push_back(i);
  }
  TUTTI_RETURN_IF_ERROR(set_integers(ctx, 0, sum_a.span(), Shape{sum_a.size}, "axis"));
  return set_integers(ctx, 1, sum_b.span(), Shape{sum_b.size}, "axis");
}

}  // namespace tutti::cpu

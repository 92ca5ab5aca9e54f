#include "tutti/kernels/cpu/rearrange.h"

#include <array>
#include <complex>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti::cpu {

Status transpose(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int rank = input.rank();
  DimList perm;
  if (ctx.input(1).rank() != 1) return invalid_argument("perm must be rank 1, got shape ", ctx.input(1).shape());
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "perm", &perm));
  if (perm.size != rank) {
    return invalid_argument("transpose expects a vector of size ", rank, ". But input(1) is a vector of size ",
                            perm.size);
  }
  std::array<bool, kMaxRank> seen{};
  DimList dims;
  bool unchanged = true;  // but for the places of dimensions of size 1
  int last_moved = -1;
  for (int i = 0; i < rank; ++i) {
    std::int64_t d = perm[i];
    if (d < 0) d += rank;
    if (d < 0 || d >= rank) return invalid_argument(perm[i], " is out of range [0 .. ", rank, ")");
    if (seen[d]) return invalid_argument(d, " is missing or repeated in {", str_join(perm.span(), ","), "}.");
    seen[d] = true;
    perm[i] = d;
    dims.push_back(input.dim(static_cast<int>(d)));
    if (dims[i] != 1) {
      unchanged &= d > last_moved;
      last_moved = static_cast<int>(d);
    }
  }
  const Shape shape(dims.span());
  if (unchanged) {
    ctx.set_output(0, input.reshaped(shape));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  DimList from, to;
  strides_of(input.shape(), &from);
  strides_of(shape, &to);
  StridedCopy copy;
  for (int i = 0; i < rank; ++i) copy.add_loop(dims[i], to[i], from[static_cast<int>(perm[i])]);
  copy.run(out->dtype(), out->raw(), input.raw(), ctx.team());
  return {};
}

namespace {

template <typename T>
void conjugate(const Tensor& from, Tensor& to) {
  for (std::int64_t i = 0; i < to.num_elements(); ++i) to.data<T>()[i] = std::conj(from.data<T>()[i]);
}

}  // namespace

Status conjugate_transpose(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(transpose(ctx));
  const DType dtype = ctx.output(0).dtype();
  if (!kComplexes.contains(dtype)) return {};
  // Where nothing moved it is the input's memory, which others may read.
  const Tensor moved = ctx.output(0);
  if (moved.raw() == ctx.input(0).raw()) TUTTI_RETURN_IF_ERROR(ctx.allocate_output(0, moved.shape()).status());
  if (dtype == DType::kComplex64) {
    conjugate<std::complex<float>>(moved, ctx.output(0));
  } else {
    conjugate<std::complex<double>>(moved, ctx.output(0));
  }
  return {};
}

Status tile(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int rank = input.rank();
  DimList multiples, dims;
  if (ctx.input(1).rank() != 1) {
    return invalid_argument("Expected multiples to be 1-D, but got shape ", ctx.input(1).shape());
  }
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "multiples", &multiples));
  if (multiples.size != rank) {
    return invalid_argument("Expected multiples argument to be a vector of length ", rank, " but got length ",
                            multiples.size);
  }
  bool unchanged = true;
  for (int d = 0; d < rank; ++d) {
    std::int64_t size;
    if (multiples[d] < 0) return invalid_argument("Expected multiples[", d, "] >= 0, but got ", multiples[d]);
    if (__builtin_mul_overflow(multiples[d], input.dim(d), &size)) {
      return invalid_argument("multiples[", d, "] = ", multiples[d], " is too large for ", input.shape());
    }
    unchanged &= multiples[d] == 1;
    dims.push_back(size);
  }
  if (unchanged) {
    ctx.set_output(0, input);
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};
  DimList from, to;
  strides_of(input.shape(), &from);
  strides_of(shape, &to);
  StridedCopy copy;
  for (int d = 0; d < rank; ++d) {
    copy.add_loop(multiples[d], to[d] * input.dim(d), 0);
    copy.add_loop(input.dim(d), to[d], from[d]);
  }
  copy.run(out->dtype(), out->raw(), input.raw(), ctx.team());
  return {};
}

Status broadcast_to(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(1), "shape"));
  if (!broadcasts_to(input.shape(), shape)) {
    return invalid_argument("Incompatible shapes: ", input.shape(), " vs. ", shape);
  }
  if (input.num_elements() == shape.num_elements()) {
    ctx.set_output(0, input.reshaped(shape));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  broadcast_elements(input, *out, ctx.team());
  return {};
}

Status reverse(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int rank = input.rank();
  if (rank == 0 || input.num_elements() == 0) {  // TensorFlow does not look at the axes then
    ctx.set_output(0, input);
    return {};
  }
  DimList axes;
  if (ctx.input(1).rank() != 1) {
    return invalid_argument("'dims' must be 1-dimension, not ", ctx.input(1).rank());
  }
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "axis", &axes));
  std::array<bool, kMaxRank> flip{};
  for (int i = 0; i < axes.size; ++i) {
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axes[i], rank));
    if (flip[at]) return invalid_argument("axis ", at, " specified more than once.");
    flip[at] = true;
  }
  if (axes.size == 0) {
    ctx.set_output(0, input);
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
  if (out->num_elements() == 0) return {};
  DimList strides;
  strides_of(input.shape(), &strides);
  StridedCopy copy;
  std::int64_t offset = 0;
  for (int d = 0; d < rank; ++d) {
    copy.add_loop(input.dim(d), strides[d], flip[d] ? -strides[d] : strides[d]);
    if (flip[d]) offset += (input.dim(d) - 1) * strides[d];
  }
  copy.run(out->dtype(), out->raw(), at_element(out->dtype(), input.raw(), offset), ctx.team());
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/concat.h"

#include <memory>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/join_rows.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti::cpu {

namespace {

// From so many bytes a row of an input on, a copy of its own costs little.
constexpr std::int64_t kWidePiece = 128;
constexpr std::int64_t kManyRows = 64;

// Row by row, so that the output is written from its beginning to its end.
void join_rows(KernelContext& ctx, int first, int count, std::int64_t rows, Tensor& out) {
  std::vector<internal::RowPiece> pieces;
  for (int i = 0; i < count; ++i) {
    const Tensor& input = ctx.input(first + i);
    if (input.bytes() == 0) continue;
    pieces.push_back({static_cast<const char*>(input.raw()), input.bytes() / static_cast<std::size_t>(rows)});
  }
  const auto row_bytes = static_cast<std::int64_t>(out.bytes()) / rows;
  parallel_for(ctx.team(), rows, kElementGrain * 4 / row_bytes + 1, [&](std::int64_t begin, std::int64_t end) {
    internal::join_rows(pieces, begin, end, static_cast<char*>(out.raw()));
  });
}

// Joins inputs [first, first + count) along `axis` of their common rank.
Status concatenate(KernelContext& ctx, int first, int count, const Tensor& axis_input) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_integer(axis_input, "axis"));
  const Tensor& head = ctx.input(first);
  TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, head.rank()));
  std::int64_t total = 0;
  for (int i = 0; i < count; ++i) {
    const Shape& shape = ctx.input(first + i).shape();
    bool fits = shape.rank() == head.rank();
    for (int d = 0; fits && d < shape.rank(); ++d) fits = d == at || shape.dim(d) == head.dim(d);
    if (!fits) {
      return invalid_argument("ConcatOp : Dimension ", at, " apart, inputs should match: shape[0] = ", head.shape(),
                              " vs. shape[", i, "] = ", shape);
    }
    if (__builtin_add_overflow(total, shape.dim(at), &total)) return invalid_argument("the joined dimension overflows");
  }
  DimList dims;
  for (const std::int64_t dim : head.shape().dims()) dims.push_back(dim);
  dims[at] = total;
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};

  const std::int64_t outer = elements_before(shape, at);
  const std::int64_t out_row = elements_from(shape, at);
  // Few rows that are long are better cut into pieces for several threads.
  if (!is_object(out->dtype()) && outer >= kManyRows &&
      static_cast<std::int64_t>(out->bytes()) >= outer * count * kWidePiece) {
    join_rows(ctx, first, count, outer, *out);
    return {};
  }
  std::int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const Tensor& input = ctx.input(first + i);
    const std::int64_t row = elements_from(input.shape(), at);
    StridedCopy copy;
    copy.add_loop(outer, out_row, row);
    copy.add_loop(row, 1, 1);
    copy.run(out->dtype(), at_element(out->dtype(), out->raw(), offset), input.raw(), ctx.team());
    offset += row;
  }
  return {};
}

// Output i of a split: columns [offset, offset + size) along `at`.
Status take_part(KernelContext& ctx, const Tensor& value, int at, std::int64_t offset, std::int64_t size, int i) {
  if (at == 0) {
    ctx.set_output(i, value.slice(offset, offset + size));
    return {};
  }
  Shape shape = value.shape();
  shape.set_dim(at, size);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(i, shape));
  if (out->num_elements() == 0) return {};
  const std::int64_t inner = elements_from(shape, at + 1);
  StridedCopy copy;
  copy.add_loop(elements_before(shape, at), size * inner, value.dim(at) * inner);
  copy.add_loop(size * inner, 1, 1);
  copy.run(out->dtype(), out->raw(), at_element(out->dtype(), value.raw(), offset * inner), ctx.team());
  return {};
}

class Pack : public Kernel {
 public:
  explicit Pack(const KernelInit& init) : axis_(init.attr<std::int64_t>("axis")) {}
  Status compute(KernelContext& ctx) override {
    const Shape& each = ctx.input(0).shape();
    const int count = ctx.num_inputs();
    for (int i = 1; i < count; ++i) {
      if (ctx.input(i).shape() != each) {
        return invalid_argument("Shapes of all inputs must match: values[0].shape = ", each, " != values[", i,
                                "].shape = ", ctx.input(i).shape());
      }
    }
    if (each.rank() == kMaxRank) return invalid_argument("inputs of ", kMaxRank, " dimensions cannot be stacked");
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis_, each.rank() + 1));
    DimList dims;
    for (int d = 0; d < at; ++d) dims.push_back(each.dim(d));
    dims.push_back(count);
    for (int d = at; d < each.rank(); ++d) dims.push_back(each.dim(d));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    const std::int64_t outer = elements_before(each, at);
    const std::int64_t row = elements_from(each, at);
    for (int i = 0; i < count; ++i) {
      StridedCopy copy;
      copy.add_loop(outer, row * count, row);
      copy.add_loop(row, 1, 1);
      copy.run(out->dtype(), at_element(out->dtype(), out->raw(), i * row), ctx.input(i).raw(), ctx.team());
    }
    return {};
  }

 private:
  const std::int64_t axis_;
};

class Unpack : public Kernel {
 public:
  explicit Unpack(const KernelInit& init) : axis_(init.attr<std::int64_t>("axis")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& value = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis_, value.rank()));
    const std::int64_t count = value.dim(at);
    if (count != ctx.num_outputs()) {
      return invalid_argument("Input shape axis ", at, " must equal ", ctx.num_outputs(), ", got shape ",
                              value.shape());
    }
    if (count == 0) return {};
    const Shape each = value.shape().without_dim(at);
    for (int i = 0; i < count; ++i) {
      TUTTI_RETURN_IF_ERROR(take_part(ctx, value, at, i, 1, i));
      ctx.set_output(i, ctx.output(i).reshaped(each));
    }
    return {};
  }

 private:
  const std::int64_t axis_;
};

}  // namespace

Status concat(KernelContext& ctx) { return concatenate(ctx, 1, ctx.num_inputs() - 1, ctx.input(0)); }
Status concat_v2(KernelContext& ctx) {
  const int count = ctx.num_inputs() - 1;
  return concatenate(ctx, 0, count, ctx.input(count));
}
KernelFactory pack_kernel() { return kernel_of<Pack>(); }
KernelFactory unpack_kernel() { return kernel_of<Unpack>(); }

Status split(KernelContext& ctx) {
  const Tensor& value = ctx.input(1);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_scalar_integer(ctx.input(0), "split_dim"));
  TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, value.rank()));
  const int parts = ctx.num_outputs();
  if (value.dim(at) % parts != 0) {
    return invalid_argument("Number of ways to split should evenly divide the split dimension, but got split_dim ", at,
                            " (size = ", value.dim(at), ") and num_split ", parts);
  }
  const std::int64_t size = value.dim(at) / parts;
  for (int i = 0; i < parts; ++i) TUTTI_RETURN_IF_ERROR(take_part(ctx, value, at, i * size, size, i));
  return {};
}

Status split_v(KernelContext& ctx) {
  const Tensor& value = ctx.input(0);
  const Tensor& sizes = ctx.input(1);
  const int parts = ctx.num_outputs();
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_integer(ctx.input(2), "split_dim"));
  TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, value.rank()));
  if (sizes.rank() != 1 || sizes.num_elements() != parts) {
    return invalid_argument("size_splits must be a vector of ", parts, " values, got shape ", sizes.shape());
  }
  const auto size_at = [&](int i) -> std::int64_t {
    return sizes.dtype() == DType::kInt8 ? sizes.data<std::int8_t>()[i] : index_at(sizes.raw(), sizes.dtype(), i);
  };
  int open = -1;
  std::int64_t known = 0;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t size = size_at(i);
    if (size == -1 && open < 0) {
      open = i;
    } else if (size < 0) {
      return invalid_argument("size_splits[", i, "] = ", size, ": sizes must be >= 0, and one may be -1");
    } else if (__builtin_add_overflow(known, size, &known)) {
      return invalid_argument("size_splits overflow");
    }
  }
  // Like TensorFlow, which takes this short way out before it looks for -1.
  if (parts == 1 && size_at(0) != value.dim(at)) {
    return invalid_argument("If there is only one output, it must have the same size as the input. Input size: ",
                            value.dim(at), " output size: ", size_at(0));
  }
  const std::int64_t rest = value.dim(at) - known;
  if (open < 0 ? rest != 0 : rest < 0) {
    return invalid_argument("size_splits add up to ", known, ", dimension ", at, " of ", value.shape(), " is ",
                            value.dim(at));
  }
  std::int64_t offset = 0;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t size = i == open ? rest : size_at(i);
    TUTTI_RETURN_IF_ERROR(take_part(ctx, value, at, offset, size, i));
    offset += size;
  }
  return {};
}

}  // namespace tutti::cpu

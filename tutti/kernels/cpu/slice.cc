#include "tutti/kernels/cpu/slice.h"

#include <memory>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strided_copy.h"
#include "tutti/kernels/cpu/strided_slice_plan.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::cpu {

Status slice(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  DimList begin, size;
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "begin", &begin));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(2), "size", &size));
  const int rank = input.rank();
  if (begin.size != rank || size.size != rank || ctx.input(1).rank() != 1 || ctx.input(2).rank() != 1) {
    return invalid_argument("Expected begin and size arguments to be 1-D tensors of size ", rank, ", but got shapes ",
                            ctx.input(1).shape(), " and ", ctx.input(2).shape());
  }
  bool only_first = rank > 0;  // whether just the first dimension is cut
  for (int d = 0; d < rank; ++d) {
    const std::int64_t dim = input.dim(d);
    if (begin[d] < 0 || begin[d] > dim) {
      return invalid_argument("Expected begin[", d, "] in [0, ", dim, "], but got ", begin[d]);
    }
    if (size[d] == -1) size[d] = dim - begin[d];
    if (size[d] < 0 || size[d] > dim - begin[d]) {
      return invalid_argument("Expected size[", d, "] in [0, ", dim - begin[d], "], but got ", size[d]);
    }
    only_first &= d == 0 || size[d] == dim;
  }
  if (rank == 0) {
    ctx.set_output(0, input);
    return {};
  }
  if (only_first) {
    ctx.set_output(0, input.slice(begin[0], begin[0] + size[0]));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape(size.span())));
  if (out->num_elements() == 0) return {};
  DimList from, to;
  strides_of(input.shape(), &from);
  strides_of(out->shape(), &to);
  StridedCopy copy;
  std::int64_t offset = 0;
  for (int d = 0; d < rank; ++d) {
    copy.add_loop(size[d], to[d], from[d]);
    offset += begin[d] * from[d];
  }
  copy.run(out->dtype(), out->raw(), at_element(out->dtype(), input.raw(), offset), ctx.team());
  return {};
}

namespace {

StridedSliceMasks read_masks(const KernelInit& init) {
  return {.begin = init.attr<std::int64_t>("begin_mask"),
          .end = init.attr<std::int64_t>("end_mask"),
          .ellipsis = init.attr<std::int64_t>("ellipsis_mask"),
          .new_axis = init.attr<std::int64_t>("new_axis_mask"),
          .shrink_axis = init.attr<std::int64_t>("shrink_axis_mask")};
}

Status make_plan(KernelContext& ctx, int first, const StridedSliceMasks& masks, const Shape& shape,
                 StridedSlicePlan* plan) {
  const Shape &begins = ctx.input(first).shape(), &ends = ctx.input(first + 1).shape();
  const Shape& steps = ctx.input(first + 2).shape();
  if (begins.rank() != 1 || begins != ends || begins != steps) {
    return invalid_argument("Expected begin, end, and strides to be 1D equal size tensors, but got shapes ", begins,
                            ", ", ends, ", and ", steps, " instead.");
  }
  DimList begin, end, strides;
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(first), "begin", &begin));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(first + 1), "end", &end));
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(first + 2), "strides", &strides));
  return plan_strided_slice(masks, begin, end, strides, shape.dims(), plan);
}

// The loops between the sliced tensor and its dense slice; where in the tensor they start.
std::int64_t slice_loops(const StridedSlicePlan& plan, const Shape& shape, bool slice_is_source, StridedCopy* copy) {
  DimList strides;
  strides_of(shape, &strides);
  std::int64_t offset = 0;
  DimList dense;
  dense.size = plan.rank;
  std::int64_t dense_stride = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    dense[d] = dense_stride;
    dense_stride *= plan.dims[d].size;
  }
  for (int d = 0; d < plan.rank; ++d) {
    const std::int64_t stride = strides[d] * (plan.dims[d].size > 1 ? plan.dims[d].stride : 1);
    offset += plan.dims[d].begin * strides[d];
    if (slice_is_source) {
      copy->add_loop(plan.dims[d].size, stride, dense[d]);
    } else {
      copy->add_loop(plan.dims[d].size, dense[d], stride);
    }
  }
  return offset;
}

class StridedSlice : public Kernel {
 public:
  explicit StridedSlice(const KernelInit& init) : masks_(read_masks(init)) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    StridedSlicePlan plan;
    TUTTI_RETURN_IF_ERROR(make_plan(ctx, 1, masks_, input.shape(), &plan));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(plan.output.span()));
    if (plan.rank > 0 && plan.whole(input.shape().dims(), /*except_first=*/true)) {
      const std::int64_t begin = plan.dims[0].size > 0 ? plan.dims[0].begin : 0;
      ctx.set_output(0, input.slice(begin, begin + plan.dims[0].size).reshaped(shape));
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    StridedCopy copy;
    const std::int64_t offset = slice_loops(plan, input.shape(), /*slice_is_source=*/false, &copy);
    copy.run(out->dtype(), out->raw(), at_element(out->dtype(), input.raw(), offset), ctx.team());
    return {};
  }

 private:
  const StridedSliceMasks masks_;
};

class StridedSliceGrad : public Kernel {
 public:
  explicit StridedSliceGrad(const KernelInit& init) : masks_(read_masks(init)) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& grad = ctx.input(4);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
    StridedSlicePlan plan;
    TUTTI_RETURN_IF_ERROR(make_plan(ctx, 1, masks_, shape, &plan));
    TUTTI_ASSIGN_OR_RETURN(const Shape slice_shape, Shape::create(plan.output.span()));
    if (slice_shape != grad.shape()) {
      return invalid_argument("shape of dy was ", grad.shape(), " instead of ", slice_shape);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    zero_elements(out->dtype(), out->raw(), out->num_elements());
    if (grad.num_elements() == 0) return {};
    StridedCopy copy;
    const std::int64_t offset = slice_loops(plan, shape, /*slice_is_source=*/true, &copy);
    copy.run(out->dtype(), at_element(out->dtype(), out->raw(), offset), grad.raw(), ctx.team());
    return {};
  }

 private:
  const StridedSliceMasks masks_;
};

// Input 4 in the shape of the slice: it may be broadcast, and have more dimensions, if they are ones.
Result<Tensor> read_slice_value(KernelContext& ctx, const Shape& slice) {
  Tensor value = ctx.input(4);
  while (value.rank() > slice.rank() && value.dim(0) == 1) value = value.reshaped(value.shape().without_dim(0));
  if (value.shape() == slice) return value;
  if (!broadcasts_to(value.shape(), slice)) {
    return invalid_argument("Cannot broadcast input shape ", ctx.input(4).shape(), " into final shape ", slice);
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor whole, ctx.allocate_temp(value.dtype(), slice));
  broadcast_elements(value, whole, ctx.team());
  return whole;
}

// Inputs 1 to 3 say which slice of `to`.
Status assign_slice(KernelContext& ctx, const StridedSliceMasks& masks, Tensor& to) {
  StridedSlicePlan plan;
  TUTTI_RETURN_IF_ERROR(make_plan(ctx, 1, masks, to.shape(), &plan));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(plan.output.span()));
  if (shape.num_elements() == 0) return {};  // whatever the value is
  TUTTI_ASSIGN_OR_RETURN(const Tensor value, read_slice_value(ctx, shape));
  StridedCopy copy;
  const std::int64_t offset = slice_loops(plan, to.shape(), /*slice_is_source=*/true, &copy);
  copy.run(to.dtype(), at_element(to.dtype(), to.raw(), offset), value.raw(), ctx.team());
  return {};
}

class StridedSliceAssign : public Kernel {
 public:
  explicit StridedSliceAssign(const KernelInit& init) : masks_(read_masks(init)) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(auto slot, input_slot(ctx, 0));
    TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/true));
    if (update.old_value(0).dtype() != ctx.input(4).dtype()) {
      return invalid_argument("variable ", printable(slot->name()), " is ", dtype_name(update.old_value(0).dtype()),
                              ", the value is ", dtype_name(ctx.input(4).dtype()));
    }
    TUTTI_RETURN_IF_ERROR(assign_slice(ctx, masks_, update.new_value(0)));
    update.commit();
    if (ctx.num_outputs() > 0) ctx.set_output_ref(0, std::move(slot));
    return {};
  }

 private:
  const StridedSliceMasks masks_;
};

class TensorStridedSliceUpdate : public Kernel {
 public:
  explicit TensorStridedSliceUpdate(const KernelInit& init) : masks_(read_masks(init)) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
    if (out->raw() != input.raw()) copy_elements(input.dtype(), out->raw(), input.raw(), input.num_elements());
    return assign_slice(ctx, masks_, *out);
  }

 private:
  const StridedSliceMasks masks_;
};

}  // namespace

KernelFactory strided_slice_assign_kernel() { return kernel_of<StridedSliceAssign>(); }
KernelFactory tensor_strided_slice_update_kernel() { return kernel_of<TensorStridedSliceUpdate>(); }

KernelFactory strided_slice_kernel() { return kernel_of<StridedSlice>(); }
KernelFactory strided_slice_grad_kernel() { return kernel_of<StridedSliceGrad>(); }

Status pad(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const Tensor& paddings = ctx.input(1);
  const int rank = input.rank();
  if (paddings.rank() != 2 || paddings.dim(1) != 2 || paddings.dim(0) != rank) {
    return invalid_argument("paddings must be a matrix [", rank, ",2], not ", paddings.shape());
  }
  DimList dims;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t before = index_at(paddings.raw(), paddings.dtype(), 2 * d);
    const std::int64_t after = index_at(paddings.raw(), paddings.dtype(), 2 * d + 1);
    std::int64_t size = input.dim(d);
    if (before < 0 || after < 0) {
      return invalid_argument("paddings must be non-negative: ", before, " ", after, " for dimension ", d);
    }
    if (__builtin_add_overflow(size, before, &size) || __builtin_add_overflow(size, after, &size)) {
      return invalid_argument("paddings ", before, " ", after, " of dimension ", d, " are too large");
    }
    dims.push_back(size);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (ctx.num_inputs() > 2) {
    if (ctx.input(2).rank() != 0) {
      return invalid_argument("constant_values must be a scalar, not of shape ", ctx.input(2).shape());
    }
    fill_elements(out->dtype(), out->raw(), ctx.input(2).raw(), out->num_elements());
  } else {
    zero_elements(out->dtype(), out->raw(), out->num_elements());
  }
  if (input.num_elements() == 0) return {};
  DimList from, to;
  strides_of(input.shape(), &from);
  strides_of(shape, &to);
  StridedCopy copy;
  std::int64_t offset = 0;
  for (int d = 0; d < rank; ++d) {
    copy.add_loop(input.dim(d), to[d], from[d]);
    offset += index_at(paddings.raw(), paddings.dtype(), 2 * d) * to[d];
  }
  copy.run(out->dtype(), at_element(out->dtype(), out->raw(), offset), input.raw(), ctx.team());
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/control_flow.h"

namespace tutti::cpu {

namespace {

Result<int> branch_of(KernelContext& ctx) {
  const Tensor& predicate = ctx.input(1);
  if (predicate.dtype() != DType::kBool || predicate.rank() != 0) {
    return invalid_argument("The second input must be a scalar bool, but it has shape ", predicate.shape());
  }
  return predicate.scalar<bool>() ? 1 : 0;
}

Status set_index(KernelContext& ctx, int index) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(1, Shape{}));
  *out->data<std::int32_t>() = index;
  return {};
}

}  // namespace

Status switch_value(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const int taken, branch_of(ctx));
  ctx.set_output(taken, ctx.input(0));
  return {};
}

Status switch_reference(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const int taken, branch_of(ctx));
  ctx.set_output_ref(taken, ctx.input_ref(0));
  return {};
}

Status merge_value(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.input(i).has_value()) continue;
    ctx.set_output(0, ctx.input(i));
    return set_index(ctx, i);
  }
  return internal_error("a Merge ran without a live input");
}

Status merge_reference(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.input_ref(i)) continue;
    ctx.set_output_ref(0, ctx.input_ref(i));
    return set_index(ctx, i);
  }
  return internal_error("a RefMerge ran without a live input");
}

Status pass_value(KernelContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  return {};
}

Status pass_reference(KernelContext& ctx) {
  ctx.set_output_ref(0, ctx.input_ref(0));
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/control_flow.h"

#include "tutti/kernels/resources/variable.h"

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

Status hand_on(KernelContext& ctx, int in, int out) {
  const std::shared_ptr<ResourceSlot>& reference = ctx.input_ref(in);
  if (!reference) {
    ctx.set_output(out, ctx.input(in));
    return {};
  }
  const std::shared_ptr<Variable> variable = variable_in(*reference);
  if (variable ? !variable->initialised() : !reference->get()) {
    return failed_precondition("Attempting to use uninitialized value ", printable(reference->name()));
  }
  ctx.set_output_ref(out, reference);
  return {};
}

Status switch_value(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const int taken, branch_of(ctx));
  return hand_on(ctx, 0, taken);
}

Status switch_reference(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const int taken, branch_of(ctx));
  ctx.set_output_ref(taken, ctx.input_ref(0));
  return {};
}

Status merge_value(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.input(i).has_value() && !ctx.input_ref(i)) continue;
    TUTTI_RETURN_IF_ERROR(hand_on(ctx, i, 0));
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

Status pass_value(KernelContext& ctx) { return hand_on(ctx, 0, 0); }

Status pass_reference(KernelContext& ctx) {
  ctx.set_output_ref(0, ctx.input_ref(0));
  return {};
}

Status select_reference(KernelContext& ctx) {
  const Tensor& index = ctx.input(0);
  if (index.rank() != 0) return invalid_argument("Index must be a scalar, but it has shape ", index.shape());
  const std::int32_t chosen = index.scalar<std::int32_t>();
  const int count = ctx.num_inputs() - 1;
  if (chosen < 0 || chosen >= count) {
    return invalid_argument("Index must be in the range [0, ", count, ") but got ", chosen);
  }
  ctx.set_output_ref(0, ctx.input_ref(1 + chosen));
  return {};
}

}  // namespace tutti::cpu

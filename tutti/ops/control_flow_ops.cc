// v1 control flow: Switch, Merge, Enter, Exit, NextIteration, LoopCond and their reference forms.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/control_flow.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

Status switch_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 0).status());
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(0));
  return {};
}

// What all inputs agree on. A loop's back edge may be open yet: then nothing is known.
Status merge_shape(ShapeContext& c) {
  c.set_output(1, PartialShape::scalar());
  PartialShape common = c.input(0);
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& shape = c.input(i);
    if (!c.node().input(i) || !shape.has_rank() || !common.has_rank() || shape.rank() != common.rank()) return {};
    for (int d = 0; d < common.rank(); ++d) {
      if (common.dim(d) != shape.dim(d)) common.set_dim(d, kUnknownDim);
    }
  }
  c.set_output(0, std::move(common));
  return {};
}

// "T", or "Ref(T)" in the reference forms.
struct ValueForm {
  std::string prefix;
  std::string type;
  unsigned traits;
};

void add_value_form(OpTable& ops, const ValueForm& form, bool is_reference) {
  const auto fn = [&](KernelFn value, KernelFn reference) {
    return std::vector<KernelEntry>{TUTTI_CPU(kernel_from(is_reference ? reference : value))};
  };
  const unsigned pass = form.traits | kPassThrough;
  ops.add({.name = form.prefix + "Switch",
           .signature =
               str_cat("data: ", form.type, ", pred: bool -> output_false: ", form.type, ", output_true: ", form.type),
           .attrs = "T: type",
           .shape = switch_shape,
           .traits = is_reference ? form.traits | kAllowsUninitialised : form.traits,
           .kernels = fn(cpu::switch_value, cpu::switch_reference)});
  ops.add({.name = form.prefix + "Merge",
           .signature = str_cat("inputs: ", is_reference ? "Ref(N * T)" : "N * T", " -> output: ", form.type,
                                ", value_index: int32"),
           .attrs = "T: type; N: int >= 1",
           .shape = merge_shape,
           .traits = form.traits,
           .kernels = fn(cpu::merge_value, cpu::merge_reference)});
  ops.add({.name = form.prefix + "Enter",
           .signature = str_cat("data: ", form.type, " -> output: ", form.type),
           .attrs = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
           .shape = shape::unchanged,
           .traits = pass,
           .kernels = fn(cpu::pass_value, cpu::pass_reference)});
  for (const char* name : {"Exit", "NextIteration"}) {
    ops.add({.name = form.prefix + name,
             .signature = str_cat("data: ", form.type, " -> output: ", form.type),
             .attrs = "T: type",
             .shape = shape::unchanged,
             .traits = pass,
             .kernels = fn(cpu::pass_value, cpu::pass_reference)});
  }
}

// The shape that all have, where it is one.
Status ref_select_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  const PartialShape& first = c.input(1);
  for (int i = 2; i < c.num_inputs(); ++i) {
    if (!(c.input(i) == first)) return {};
  }
  if (first.fully_known()) c.set_output(0, first);
  return {};
}

void add_reference_forms(OpTable& ops) {
  ops.add({.name = "RefIdentity",
           .signature = "input: Ref(T) -> output: Ref(T)",
           .attrs = "T: type",
           .shape = shape::unchanged,
           .grad = internal::pass_through_grad,
           .traits = kPassThrough | kAllowsUninitialised,
           .kernels = {TUTTI_CPU(kernel_from(cpu::pass_reference))}});
  ops.add({.name = "RefSelect",
           .signature = "index: int32, inputs: Ref(N * T) -> output: Ref(T)",
           .attrs = "T: type; N: int >= 1",
           .shape = ref_select_shape,
           .no_gradient = true,
           .traits = kAllowsUninitialised,
           .kernels = {TUTTI_CPU(kernel_from(cpu::select_reference))}});
}

}  // namespace

void register_control_flow_ops(OpTable& ops) {
  add_reference_forms(ops);
  add_value_form(ops, {.prefix = "", .type = "T", .traits = kControlFlow}, /*is_reference=*/false);
  add_value_form(ops, {.prefix = "Ref", .type = "Ref(T)", .traits = kControlFlow}, /*is_reference=*/true);
  ops.add({.name = "LoopCond",
           .signature = "input: bool -> output: bool",
           .shape = shape::scalar,
           .traits = kControlFlow | kPassThrough,
           .kernels = {TUTTI_CPU(kernel_from(cpu::pass_value))}});
}

}  // namespace tutti

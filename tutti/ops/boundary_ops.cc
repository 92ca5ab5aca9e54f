// The edges of graphs: constants, placeholders, pass-throughs, checks, and the two ends of a cut edge.
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/boundary.h"
#include "tutti/kernels/cpu/print.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

Status const_shape(ShapeContext& c) {
  const Tensor& value = c.attr<Tensor>("value");
  const DType dtype = c.attr<DType>("dtype");
  if (value.dtype() != dtype) {
    return invalid_argument("value is ", dtype_name(value.dtype()), ", dtype says ", dtype_name(dtype));
  }
  c.set_output(0, value.shape());
  return {};
}

Status placeholder_with_default_shape(ShapeContext& c) {
  const PartialShape& shape = c.attr<PartialShape>("shape");
  if (!shape.compatible_with(c.input(0))) {
    return invalid_argument("the default ", c.input(0), " does not fit shape ", shape);
  }
  c.set_output(0, shape);
  return {};
}

Status scalar_condition(ShapeContext& c) { return c.with_rank(0, 0).status(); }

void add_sources(OpTable& ops) {
  ops.add({.name = "NoOp", .signature = "->", .shape = shape::none, .kernels = {TUTTI_CPU(kernel_from(cpu::no_op))}});
  ops.add({.name = "ControlTrigger",
           .signature = "->",
           .shape = shape::none,
           .traits = kIgnoresDeadControl,
           .kernels = {TUTTI_CPU(kernel_from(cpu::no_op))}});
  ops.add({.name = "Const",
           .signature = "-> output: dtype",
           .attrs = "value: tensor; dtype: type",
           .shape = const_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::const_kernel())}});
  // Stateful, so that two of them are never merged for being equal: each is fed by its own name.
  ops.add({.name = "Placeholder",
           .signature = "-> output: dtype",
           .attrs = "dtype: type; shape: shape = unknown",
           .shape = shape::from_attr,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::placeholder_kernel())}});
  ops.add({.name = "PlaceholderV2",
           .signature = "-> output: dtype",
           .attrs = "dtype: type; shape: shape",
           .shape = shape::from_attr,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::placeholder_kernel())}});
  ops.add({.name = "PlaceholderWithDefault",
           .signature = "input: dtype -> output: dtype",
           .attrs = "dtype: type; shape: shape",
           .shape = placeholder_with_default_shape,
           .grad = internal::pass_through_grad,
           .traits = kPassThrough,
           .kernels = {TUTTI_CPU(kernel_from(cpu::identity))}});
}

OpRow pass_through(std::string name, GradFn grad) {
  return {.name = std::move(name),
          .signature = "input: T -> output: T",
          .attrs = "T: type",
          .shape = shape::unchanged,
          .grad = std::move(grad),
          .traits = kPassThrough,
          .kernels = {TUTTI_CPU(kernel_from(cpu::identity))}};
}

void add_pass_throughs(OpTable& ops) {
  ops.add(pass_through("Identity", internal::pass_through_grad));
  // Unlike an Identity it never shares a variable's memory: it is what the variable held when it ran.
  OpRow snapshot = pass_through("Snapshot", internal::pass_through_grad);
  snapshot.traits = kNoTraits;
  ops.add(std::move(snapshot));
  ops.add({.name = "DeepCopy",
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::deep_copy))}});
  OpRow stop = pass_through("StopGradient", nullptr);
  stop.no_gradient = true;
  ops.add(std::move(stop));
  OpRow prevent = pass_through("PreventGradient", internal::prevent_gradient_grad);
  prevent.attrs = "T: type; message: string = ''";
  ops.add(std::move(prevent));
  ops.add({.name = "IdentityN",
           .signature = "input: T -> output: T",
           .attrs = "T: list(type) >= 1",
           .shape = shape::unchanged,
           .grad = internal::pass_through_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::identity))}});
}

void add_checks(OpTable& ops) {
  ops.add({.name = "CheckNumerics",
           .signature = "tensor: T -> output: T",
           .attrs = "T: type; message: string",
           .types = kFloats,
           .shape = shape::unchanged,
           .grad = internal::check_numerics_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::check_numerics_kernel())}});
  ops.add({.name = "CheckNumericsV2",
           .signature = "tensor: T -> output: T",
           .attrs = "T: type; message: string",
           .types = kFloats,
           .shape = shape::unchanged,
           .grad = internal::check_numerics_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::check_numerics_v2_kernel())}});
  ops.add({.name = "Assert",
           .signature = "condition: bool, data: T ->",
           .attrs = "T: list(type) >= 1; summarize: int = 3",
           .shape = scalar_condition,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::assert_kernel())}});
}

void print_grad(GradContext& g) { g.set(0, g.grad()); }

void add_prints(OpTable& ops) {
  ops.add({.name = "Print",
           .signature = "input: T, data: U -> output: T",
           .attrs = "T: type; U: list(type) >= 0; message: string = ''; first_n: int = -1; summarize: int = 3",
           .shape = shape::unchanged,
           .grad = print_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::print_kernel())}});
  ops.add({.name = "PrintV2",
           .signature = "input: string ->",
           .attrs = "output_stream: string = 'stderr'; end: string = '\n'",
           .shape = shape::none,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::print_v2_kernel())}});
}

void add_cut_edges(OpTable& ops) {
  const std::string where =
      "tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string; "
      "client_terminated: bool = false";
  for (const char* name : {"_Send", "_HostSend"}) {
    ops.add({.name = name,
             .signature = "tensor: T ->",
             .attrs = "T: type; " + where,
             .shape = shape::none,
             .traits = kStateful | kTransfer,
             .kernels = {TUTTI_CPU(cpu::send_kernel())}});
  }
  for (const char* name : {"_Recv", "_HostRecv"}) {
    ops.add({.name = name,
             .signature = "-> tensor: tensor_type",
             .attrs = "tensor_type: type; " + where,
             .shape = shape::none,
             .traits = kStateful | kTransfer,
             .kernels = {TUTTI_CPU(cpu::recv_kernel())}});
  }
}

}  // namespace

void register_boundary_ops(OpTable& ops) {
  add_sources(ops);
  add_pass_throughs(ops);
  add_checks(ops);
  add_prints(ops);
  add_cut_edges(ops);
}

}  // namespace tutti

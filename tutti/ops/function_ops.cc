// Functions and functional control flow: calls, branches, loops, and the nodes inside function bodies.
#include "tutti/graph/function.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/function_kernels.h"
#include "tutti/ops/internal/function_grad.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

std::string types_text(std::span<const EdgeType> types) { return str_cat("(", str_join(types, ", "), ")"); }

// Compares what a node passes to and expects from a function with the function's signature. A function that
// the library does not have (yet: it may be calling itself) is left to the moment of the call.
Status check_callee(const Node& node, const FunctionRef& function, std::span<const EdgeType> args,
                    std::optional<std::span<const EdgeType>> results) {
  std::shared_ptr<const OpDef> signature = node.graph().library().signature(function.name);
  if (signature == nullptr) return Status();
  std::vector<EdgeType> takes;
  std::vector<EdgeType> gives;
  AttrMap attrs = function.attrs ? *function.attrs : AttrMap();
  TUTTI_RETURN_IF_ERROR(complete_attrs(*signature, &attrs));
  TUTTI_RETURN_IF_ERROR(resolve_types(*signature, attrs, &takes, &gives));
  if (!std::equal(takes.begin(), takes.end(), args.begin(), args.end())) {
    return invalid_argument("function ", printable(function.name), " takes ", types_text(takes), ", is given ",
                            types_text(args));
  }
  if (results && !std::equal(gives.begin(), gives.end(), results->begin(), results->end())) {
    return invalid_argument("function ", printable(function.name), " returns ", types_text(gives), ", ",
                            types_text(*results), " is expected");
  }
  return Status();
}

// Outputs have the shapes in the attribute `name` where it lists them all.
Status shapes_from(ShapeContext& c, std::string_view name) {
  const AttrValue* attr = c.node().find_attr(name);
  const auto* shapes = attr == nullptr ? nullptr : attr->get<std::vector<PartialShape>>();
  if (shapes == nullptr || shapes->empty()) return Status();
  if (static_cast<int>(shapes->size()) != c.num_outputs()) {
    return invalid_argument(name, " lists ", shapes->size(), " shapes for ", c.num_outputs(), " outputs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, (*shapes)[i]);
  return Status();
}

Status branch_shapes(ShapeContext& c, std::span<const FunctionRef> branches) {
  const Node& node = c.node();
  for (const FunctionRef& branch : branches) {
    TUTTI_RETURN_IF_ERROR(check_callee(node, branch, node.input_types().subspan(1), node.output_types()));
  }
  return shapes_from(c, "output_shapes");
}

Status if_shapes(ShapeContext& c) {
  return branch_shapes(c, std::vector{c.attr<FunctionRef>("then_branch"), c.attr<FunctionRef>("else_branch")});
}

Status case_shapes(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  return branch_shapes(c, c.attr<std::vector<FunctionRef>>("branches"));
}

// The attribute says what is true in every iteration; without it the variables keep their shapes.
Status while_shapes(ShapeContext& c) {
  const Node& node = c.node();
  TUTTI_RETURN_IF_ERROR(check_callee(node, c.attr<FunctionRef>("cond"), node.input_types(), std::nullopt));
  TUTTI_RETURN_IF_ERROR(check_callee(node, c.attr<FunctionRef>("body"), node.input_types(), node.output_types()));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
  return shapes_from(c, "output_shapes");
}

Status call_shapes(ShapeContext& c) {
  const Node& node = c.node();
  TUTTI_RETURN_IF_ERROR(check_callee(node, c.attr<FunctionRef>("f"), node.input_types(), node.output_types()));
  return shapes_from(c, "_output_shapes");
}

// `_output_shapes` is how clients and function bodies write down what is known of an argument.
Status arg_shape(ShapeContext& c) { return shapes_from(c, "_output_shapes"); }

constexpr char kBranchAttrs[] =
    "Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; "
    "output_shapes: list(shape) = []";
constexpr char kCaseAttrs[] =
    "Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []";
constexpr char kWhileAttrs[] =
    "T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10";
constexpr char kCallAttrs[] =
    "Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ''; config_proto: string = ''; "
    "executor_type: string = ''";

void add_control_flow(OpTable& ops, const std::string& prefix, unsigned traits) {
  ops.add({.name = prefix + "If",
           .signature = "cond: Tcond, input: Tin -> output: Tout",
           .attrs = kBranchAttrs,
           .shape = if_shapes,
           .grad = internal::if_grad,
           .traits = traits,
           .kernels = {TUTTI_CPU(if_kernel())}});
  ops.add({.name = prefix + "Case",
           .signature = "branch_index: int32, input: Tin -> output: Tout",
           .attrs = kCaseAttrs,
           .shape = case_shapes,
           .grad = internal::case_grad,
           .traits = traits,
           .kernels = {TUTTI_CPU(case_kernel())}});
  ops.add({.name = prefix + "While",
           .signature = "input: T -> output: T",
           .attrs = kWhileAttrs,
           .shape = while_shapes,
           .grad = internal::while_grad,
           .traits = traits | kExpensive,
           .kernels = {TUTTI_CPU(while_kernel())}});
}

}  // namespace

void register_function_ops(OpTable& ops) {
  add_control_flow(ops, "", kStateful);
  add_control_flow(ops, "Stateless", kNoTraits);
  ops.add({.name = "PartitionedCall",
           .signature = "args: Tin -> output: Tout",
           .attrs = kCallAttrs,
           .shape = call_shapes,
           .grad = internal::call_grad,
           .kernels = {TUTTI_CPU(call_kernel())}});
  ops.add({.name = "StatefulPartitionedCall",
           .signature = "args: Tin -> output: Tout",
           .attrs = kCallAttrs,
           .shape = call_shapes,
           .grad = internal::call_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(call_kernel())}});

  ops.add({.name = "_Arg",
           .signature = "-> output: T",
           .attrs = "T: type; index: int >= 0",
           .shape = arg_shape,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(function_boundary_kernel())}});
  ops.add({.name = "_Retval",
           .signature = "input: T -> ",
           .attrs = "T: type; index: int >= 0",
           .shape = shape::none,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(function_boundary_kernel())}});
  ops.add({.name = "FakeParam",
           .signature = "-> output: dtype",
           .attrs = "dtype: type; shape: shape",
           .shape = shape::from_attr,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(fake_param_kernel())}});
  ops.add({.name = "DeviceIndex",
           .signature = "-> index: int32",
           .attrs = "device_names: list(string)",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(device_index_kernel())}});
  ops.add({.name = "ToBool",
           .signature = "input: T -> output: bool",
           .attrs = "T: type",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(to_bool_kernel())}});
  ops.add({.name = "_ListToArray",
           .signature = "input: Tin -> output: N * T",
           .attrs = "Tin: list(type) >= 1; T: type; N: int >= 1",
           .shape = shape::unchanged,
           .kernels = {TUTTI_CPU(pass_all_kernel())}});
  ops.add({.name = "_ArrayToList",
           .signature = "input: N * T -> output: out_types",
           .attrs = "T: type; N: int >= 1; out_types: list(type) >= 1",
           .shape = shape::unchanged,
           .kernels = {TUTTI_CPU(pass_all_kernel())}});
}

}  // namespace tutti

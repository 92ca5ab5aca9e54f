// Reference variables (VariableV2, Assign) and resource variables (VarHandleOp, ReadVariableOp).
#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/slice.h"
#include "tutti/kernels/cpu/variables.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_grads.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

struct RowUpdateOp {
  const char* name;
  cpu::RowUpdate update;
};
constexpr RowUpdateOp kArithmeticRowUpdates[] = {
    {"Add", cpu::RowUpdate::kAdd}, {"Sub", cpu::RowUpdate::kSub}, {"Mul", cpu::RowUpdate::kMul},
    {"Div", cpu::RowUpdate::kDiv}, {"Min", cpu::RowUpdate::kMin}, {"Max", cpu::RowUpdate::kMax},
};

constexpr std::string_view kNumberTypes =
    "{float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, uint64}";
constexpr std::string_view kRealTypes =
    "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}";
constexpr std::string_view kMinMaxTypes = "{half, bfloat16, float, double, int32, int64}";

bool is_min_max(cpu::RowUpdate update) { return update == cpu::RowUpdate::kMin || update == cpu::RowUpdate::kMax; }

// Of the oldest form: no dimensions mean that nothing is known.
Status old_variable_shape(ShapeContext& c) {
  const PartialShape& shape = c.attr<PartialShape>("shape");
  if (shape.rank() != 0) c.set_output(0, shape);
  return {};
}

Status assign_shape(ShapeContext& c) {
  if (!c.attr<bool>("validate_shape")) {
    c.set_output(0, c.input(1));
    return {};
  }
  return shape::all_same(c);
}

Status read_variable_shape(ShapeContext& c) {
  const DType held = c.resource_dtype(0);
  const DType asked = c.attr<DType>("dtype");
  if (held != DType::kInvalid && held != asked) {
    return invalid_argument("Trying to read variable with wrong dtype. Expected ", dtype_name(held), " got ",
                            dtype_name(asked));
  }
  c.set_output(0, c.resource_shape(0));
  return {};
}

Status check_variable_value(ShapeContext& c) {
  const DType held = c.resource_dtype(0);
  const DType given = c.attr<DType>("dtype");
  if (held != DType::kInvalid && held != given) {
    return invalid_argument("the variable is ", dtype_name(held), ", the value ", dtype_name(given));
  }
  const PartialShape declared = c.resource_shape(0);
  if (!declared.compatible_with(c.input(1))) {
    return invalid_argument("the variable has shape ", declared, ", the value ", c.input(1));
  }
  return {};
}

Status variable_shape_shape(ShapeContext& c) {
  const int rank = c.resource_shape(0).rank();
  c.set_output(0, PartialShape{rank >= 0 ? rank : kUnknownDim});
  return {};
}

Status resource_gather_shape(ShapeContext& c) {
  const std::int64_t batch_dims = c.attr<std::int64_t>("batch_dims");
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape,
                         internal::gathered_shape(c.resource_shape(0), c.input(1), batch_dims, batch_dims));
  c.set_output(0, std::move(shape));
  return {};
}

// The gradient of a handle is that of the variable behind it.
void resource_gather_grad(GradContext& c) {
  const PartialShape known = ShapeContext(c.node()).resource_shape(0);
  const std::int64_t batch_dims = internal::batch_dims_of(c);
  Output dense_shape;
  if (batch_dims != 0) {
    dense_shape = op1("VariableShape", {c.input(0)});
  } else if (const auto shape = known.as_shape()) {
    dense_shape = constant(c.graph(), Tensor::vector<std::int64_t>(shape->dims()));
  } else {
    dense_shape = op1("VariableShape", {c.input(0)}, {{"out_type", DType::kInt64}});
  }
  if (batch_dims != 0) {
    c.set(0, internal::batched_rows_sum(c.grad(), c.input(1), dense_shape, batch_dims));
  } else {
    c.set(0, internal::gathered_rows(c.grad(), c.input(1), dense_shape, known));
  }
}

void add_reference_variables(OpTable& ops) {
  const std::string attrs = "shape: shape; dtype: type; container: string = ''; shared_name: string = ''";
  ops.add({.name = "VariableV2",
           .signature = "-> ref: Ref(dtype)",
           .attrs = attrs,
           .shape = shape::from_attr,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::variable_kernel())}});
  ops.add({.name = "Variable",
           .signature = "-> ref: Ref(dtype)",
           .attrs = attrs,
           .shape = old_variable_shape,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::variable_kernel())}});
  ops.add({.name = "TemporaryVariable",
           .signature = "-> ref: Ref(dtype)",
           .attrs = "shape: shape; dtype: type; var_name: string = ''",
           .shape = shape::from_attr,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::temporary_variable_kernel())}});
  ops.add({.name = "DestroyTemporaryVariable",
           .signature = "ref: Ref(T) -> value: T",
           .attrs = "T: type; var_name: string",
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::destroy_temporary_variable_kernel())}});
  ops.add({.name = "IsVariableInitialized",
           .signature = "ref: Ref(dtype) -> is_initialized: bool",
           .attrs = "dtype: type",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful | kAllowsUninitialised,
           .kernels = {TUTTI_CPU(kernel_from(cpu::is_variable_initialized))}});
}

void add_reference_updates(OpTable& ops) {
  ops.add({.name = "Assign",
           .signature = "ref: Ref(T), value: T -> output_ref: Ref(T)",
           .attrs = "T: type; validate_shape: bool = true; use_locking: bool = true",
           .shape = assign_shape,
           .no_gradient = true,
           .traits = kStateful | kAllowsUninitialised,
           .kernels = {TUTTI_CPU(cpu::assign_kernel())}});
  for (const bool subtract : {false, true}) {
    ops.add({.name = subtract ? "AssignSub" : "AssignAdd",
             .signature = "ref: Ref(T), value: T -> output_ref: Ref(T)",
             .attrs = "T: type; use_locking: bool = false",
             .types = kNumbers,
             .shape = shape::all_same,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(kernel_from(subtract ? cpu::assign_sub : cpu::assign_add))}});
  }
  ops.add({.name = "CountUpTo",
           .signature = "ref: Ref(T) -> output: T",
           .attrs = "limit: int; T: {int32, int64}",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::count_up_to_kernel())}});
  const std::string signature = "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)";
  ops.add({.name = "ScatterUpdate",
           .signature = signature,
           .attrs = "T: type; Tindices: {int32, int64}; use_locking: bool = true",
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::scatter_kernel(cpu::RowUpdate::kUpdate))}});
  for (const RowUpdateOp& row : kArithmeticRowUpdates) {
    ops.add({.name = str_cat("Scatter", row.name),
             .signature = signature,
             .attrs = str_cat("T: ", is_min_max(row.update) ? kMinMaxTypes : kNumberTypes,
                              "; Tindices: {int32, int64}; use_locking: bool = false"),
             .shape = shape::unchanged,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(cpu::scatter_kernel(row.update))}});
  }
}

// Slices by coordinates.
void add_scatter_nd(OpTable& ops) {
  const auto add = [&ops](const std::string& name, cpu::RowUpdate update, bool resource) {
    const bool replaces = update == cpu::RowUpdate::kUpdate;
    // The resource forms leave the types open; arithmetic then has kernels for numbers only.
    const std::string type = resource || replaces ? "type" : std::string(kNumberTypes);
    ops.add({.name = str_cat(resource ? "ResourceScatterNd" : "ScatterNd", name),
             .signature = resource ? "ref: resource, indices: Tindices, updates: T ->"
                                   : "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
             .attrs = str_cat("T: ", type, "; Tindices: {int32, int64}; use_locking: bool = ",
                              resource || replaces ? "true" : "false"),
             .shape = resource ? ShapeFn(shape::none) : ShapeFn(shape::unchanged),
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(resource ? cpu::resource_scatter_nd_kernel(update) : cpu::scatter_nd_kernel(update),
                                   replaces ? DTypeSet::all() : (is_min_max(update) ? kReals : kNumbers))}});
  };
  for (const bool resource : {false, true}) {
    add("Update", cpu::RowUpdate::kUpdate, resource);
    add("Add", cpu::RowUpdate::kAdd, resource);
    add("Sub", cpu::RowUpdate::kSub, resource);
  }
  add("Min", cpu::RowUpdate::kMin, /*resource=*/true);
  add("Max", cpu::RowUpdate::kMax, /*resource=*/true);
}

// Slices by their edges.
void add_slice_assignments(OpTable& ops) {
  const std::string attrs = str_cat("T: type; Index: {int32, int64}; ", internal::kSliceMasks);
  const std::string slice = "begin: Index, end: Index, strides: Index, value: T ->";
  ops.add({.name = "StridedSliceAssign",
           .signature = "ref: Ref(T), " + slice + " output_ref: Ref(T)",
           .attrs = attrs,
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::strided_slice_assign_kernel())}});
  ops.add({.name = "ResourceStridedSliceAssign",
           .signature = "ref: resource, " + slice,
           .attrs = attrs,
           .shape = shape::none,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::strided_slice_assign_kernel())}});
}

void add_resource_variables(OpTable& ops) {
  ops.add({.name = "VarHandleOp",
           .signature = "-> resource: resource",
           .attrs = "container: string = ''; shared_name: string = ''; debug_name: string = ''; dtype: type; "
                    "shape: shape; allowed_devices: list(string) = []",
           .shape = shape::scalar,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::var_handle_kernel())}});
  ops.add({.name = "ReadVariableOp",
           .signature = "resource: resource -> value: dtype",
           .attrs = "dtype: type",
           .shape = read_variable_shape,
           .grad = internal::pass_through_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::read_variable_kernel())}});
  ops.add({.name = "VarIsInitializedOp",
           .signature = "resource: resource -> is_initialized: bool",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::var_is_initialized))}});
  ops.add({.name = "VariableShape",
           .signature = "input: resource -> output: out_type",
           .attrs = "out_type: {int32, int64} = int32",
           .shape = variable_shape_shape,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::variable_shape))}});
  ops.add({.name = "DestroyResourceOp",
           .signature = "resource: resource ->",
           .attrs = "ignore_lookup_error: bool = true",
           .shape = shape::none,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::destroy_resource_kernel())}});
  ops.add({.name = "ResourceGather",
           .signature = "resource: resource, indices: Tindices -> output: dtype",
           .attrs = "batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, int64}",
           .shape = resource_gather_shape,
           .grad = resource_gather_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::resource_gather_kernel())}});
}

void add_resource_updates(OpTable& ops) {
  ops.add({.name = "AssignVariableOp",
           .signature = "resource: resource, value: dtype ->",
           .attrs = "dtype: type; validate_shape: bool = false",
           .shape = check_variable_value,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::assign_variable_kernel())}});
  for (const bool subtract : {false, true}) {
    ops.add({.name = subtract ? "AssignSubVariableOp" : "AssignAddVariableOp",
             .signature = "resource: resource, value: dtype ->",
             .attrs = "dtype: type",
             .shape = check_variable_value,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(kernel_from(subtract ? cpu::assign_sub_variable : cpu::assign_add_variable),
                                   kNumbers, "dtype")}});
  }
  ops.add({.name = "ResourceCountUpTo",
           .signature = "resource: resource -> output: T",
           .attrs = "limit: int; T: {int32, int64}",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::count_up_to_kernel())}});
  const std::string signature = "resource: resource, indices: Tindices, updates: dtype ->";
  ops.add({.name = "ResourceScatterUpdate",
           .signature = signature,
           .attrs = "dtype: type; Tindices: {int32, int64}",
           .shape = shape::none,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::resource_scatter_kernel(cpu::RowUpdate::kUpdate))}});
  for (const RowUpdateOp& row : kArithmeticRowUpdates) {
    ops.add(
        {.name = str_cat("ResourceScatter", row.name),
         .signature = signature,
         .attrs = str_cat("dtype: ", is_min_max(row.update) ? kRealTypes : kNumberTypes, "; Tindices: {int32, int64}"),
         .shape = shape::none,
         .no_gradient = true,
         .traits = kStateful,
         .kernels = {TUTTI_CPU(cpu::resource_scatter_kernel(row.update))}});
  }
}

}  // namespace

void register_variable_ops(OpTable& ops) {
  add_reference_variables(ops);
  add_reference_updates(ops);
  add_resource_variables(ops);
  add_resource_updates(ops);
  add_scatter_nd(ops);
  add_slice_assignments(ops);
}

}  // namespace tutti

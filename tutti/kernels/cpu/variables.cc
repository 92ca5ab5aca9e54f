#include "tutti/kernels/cpu/variables.h"

#include <memory>
#include <string>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/gather.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::cpu {

namespace {

// One that is declared to have no elements has its value from the start, as in TensorFlow.
std::shared_ptr<Variable> new_variable(DType dtype, const PartialShape& declared) {
  auto variable = std::make_shared<Variable>(dtype, declared);
  const std::optional<Shape> shape = declared.as_shape();
  if (shape && shape->num_elements() == 0) variable->assign(Tensor(dtype, *shape));
  return variable;
}

// The variable of `slot`, made when there is none. kInvalidArgument when it has another dtype.
Result<std::shared_ptr<Variable>> find_or_make(ResourceSlot& slot, DType dtype, const PartialShape& declared = {}) {
  auto variable = variable_in(slot);
  if (!variable) {
    auto resource = slot.get_or_create([&] { return new_variable(dtype, declared); });
    variable = std::dynamic_pointer_cast<Variable>(resource);
    if (!variable) {
      return invalid_argument("Resource ", printable(slot.name()), " is not a variable: ", resource->debug_string());
    }
  }
  if (variable->dtype() != dtype) {
    return invalid_argument("Trying to access variable ", printable(slot.name()), " with wrong dtype. Expected ",
                            dtype_name(variable->dtype()), " got ", dtype_name(dtype));
  }
  return variable;
}

Result<std::shared_ptr<ResourceSlot>> reference_slot(KernelContext& ctx) {
  const auto& slot = ctx.input_ref(0);
  if (!slot) return invalid_argument("input 0 is not a reference to a variable");
  return slot;
}

Status set_bool(KernelContext& ctx, bool value) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<bool>() = value;
  return {};
}

bool is_initialised(const ResourceSlot& slot) {
  const auto variable = variable_in(slot);
  return variable && variable->initialised();
}

Status update_by_value(BinaryOp op, const std::shared_ptr<ResourceSlot>& slot, const Tensor& value, Team& team) {
  TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/false));
  const Tensor& old_value = update.old_value(0);
  if (old_value.dtype() != value.dtype()) {
    return invalid_argument("variable ", printable(slot->name()), " is ", dtype_name(old_value.dtype()), ", the value ",
                            dtype_name(value.dtype()));
  }
  if (old_value.shape() != value.shape()) {
    return invalid_argument("Cannot update variable ", printable(slot->name()), " with shape ", old_value.shape(),
                            " using a Tensor with shape ", value.shape(), ", shapes must be equal.");
  }
  const BinaryFunction function = BinaryFunction::find(op, value.dtype());
  if (!function) return unimplemented("no arithmetic on ", dtype_name(value.dtype()));
  run_elementwise(function, old_value, value, update.new_value(0), team);
  update.commit();
  return {};
}

// --- Reference variables. ---

class VariableKernel : public Kernel {
 public:
  VariableKernel(std::shared_ptr<ResourceSlot> slot, const KernelInit& init)
      : slot_(std::move(slot)), dtype_(init.attr<DType>("dtype")), shape_(init.attr<PartialShape>("shape")) {
    // In the oldest form a shape without dimensions means that nothing is known.
    if (init.op == "Variable" && shape_.rank() == 0) shape_ = {};
  }
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init, Unnamed::kByNode));
    return std::unique_ptr<Kernel>(std::make_unique<VariableKernel>(std::move(slot), init));
  }
  Status compute(KernelContext& ctx) override {
    TUTTI_RETURN_IF_ERROR(find_or_make(*slot_, dtype_, shape_).status());
    ctx.set_output_ref(0, slot_);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const DType dtype_;
  PartialShape shape_;
};

constexpr std::string_view kTemporaries = "temporary variables";

class TemporaryVariable : public Kernel {
 public:
  explicit TemporaryVariable(const KernelInit& init)
      : name_(init.attr<std::string>("var_name").empty() ? std::string(init.node) : init.attr<std::string>("var_name")),
        dtype_(init.attr<DType>("dtype")),
        shape_(init.attr<PartialShape>("shape")) {}
  Status compute(KernelContext& ctx) override {
    auto slot = ctx.step().step_resources().slot(kTemporaries, name_);
    auto fresh = std::make_shared<Variable>(dtype_, shape_);
    if (slot->get_or_create([&] { return fresh; }) != fresh) {
      return already_exists("temporary variable ", printable(name_), " exists in this step already");
    }
    // It counts as initialised from the start, with any contents: who made it assigns before reading.
    if (const auto shape = shape_.as_shape()) {
      TUTTI_ASSIGN_OR_RETURN(Tensor value, ctx.allocate_temp(dtype_, *shape));
      zero_elements(dtype_, value.raw(), value.num_elements());
      fresh->assign(std::move(value));
    }
    ctx.set_output_ref(0, std::move(slot));
    return {};
  }

 private:
  const std::string name_;
  const DType dtype_;
  const PartialShape shape_;
};

class Assign : public Kernel {
 public:
  explicit Assign(const KernelInit& init) : validate_shape_(init.attr<bool>("validate_shape")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(auto slot, reference_slot(ctx));
    const Tensor& value = ctx.input(1);
    TUTTI_ASSIGN_OR_RETURN(auto variable, find_or_make(*slot, value.dtype()));
    if (validate_shape_) TUTTI_RETURN_IF_ERROR(check_shape(*variable, value.shape()));
    variable->assign(value);
    ctx.set_output_ref(0, std::move(slot));
    return {};
  }

 private:
  static Status check_shape(const Variable& variable, const Shape& shape) {
    const Tensor now = variable.read();
    const PartialShape expected = now.has_value() ? PartialShape(now.shape()) : variable.declared_shape();
    if (expected.compatible_with(shape)) return {};
    return invalid_argument("Assign requires shapes of both tensors to match. lhs shape= ", expected,
                            " rhs shape= ", shape);
  }

  const bool validate_shape_;
};

class CountUpTo : public Kernel {
 public:
  explicit CountUpTo(const KernelInit& init)
      : limit_(init.attr<std::int64_t>("limit")), by_reference_(init.input_types[0].is_ref) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(auto slot, by_reference_ ? reference_slot(ctx) : input_slot(ctx, 0));
    TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/false));
    const Tensor& counter = update.old_value(0);
    if (counter.rank() != 0) return invalid_argument("input is not a scalar: ", counter.shape());
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t value, read_integer(counter, "the counter"));
    if (value >= limit_) return out_of_range("Reached limit of ", limit_);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
    const std::int64_t next = value + 1;
    TUTTI_RETURN_IF_ERROR(check_fits({&next, 1}, counter.dtype(), "the count"));
    write_indices({&value, 1}, *out);
    write_indices({&next, 1}, update.new_value(0));
    update.commit();
    return {};
  }

 private:
  const std::int64_t limit_;
  const bool by_reference_;
};

// --- Rows by index. ---

// kUpdate, which is no arithmetic, has none.
BinaryOp arithmetic_of(RowUpdate update) {
  switch (update) {
    case RowUpdate::kSub:
      return BinaryOp::kSub;
    case RowUpdate::kMul:
      return BinaryOp::kMul;
    case RowUpdate::kDiv:
      return BinaryOp::kDiv;
    case RowUpdate::kMin:
      return BinaryOp::kMinimum;
    case RowUpdate::kMax:
      return BinaryOp::kMaximum;
    default:
      return BinaryOp::kAdd;
  }
}

Status check_divisors(const Tensor& updates) {
  return with_real(
      updates.dtype(),
      [&]<typename T>(T) -> Status {
        if constexpr (std::is_integral_v<T>) {
          for (const T divisor : updates.flat<T>()) {
            if (divisor == 0) return invalid_argument("Integer division by zero");
          }
        }
        return {};
      },
      []() -> Status { return {}; });
}

Status combine_rows(RowUpdate kind, const Tensor& indices, const Tensor& updates, std::int64_t row, Tensor& to) {
  const DType dtype = updates.dtype();
  const BinaryFunction function = BinaryFunction::find(arithmetic_of(kind), dtype);
  if (!function) return unimplemented("no arithmetic on ", dtype_name(dtype));
  if (kind == RowUpdate::kDiv) TUTTI_RETURN_IF_ERROR(check_divisors(updates));
  const bool one_for_all = updates.rank() == 0;
  const std::int64_t count = indices.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    void* out = at_element(dtype, to.raw(), index_at(indices.raw(), indices.dtype(), i) * row);
    function(out, at_element(dtype, updates.raw(), one_for_all ? 0 : i * row), out, row, 1, one_for_all ? 0 : 1);
  }
  return {};
}

void replace_rows(const Tensor& indices, const Tensor& updates, std::int64_t row, Tensor& to) {
  const DType dtype = to.dtype();
  const std::int64_t count = indices.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    void* out = at_element(dtype, to.raw(), index_at(indices.raw(), indices.dtype(), i) * row);
    if (updates.rank() == 0) {
      fill_elements(dtype, out, updates.raw(), row);
    } else {
      copy_elements(dtype, out, at_element(dtype, updates.raw(), i * row), row);
    }
  }
}

Status check_row_shapes(const Shape& params, const Shape& indices, const Tensor& updates) {
  if (params.rank() < 1) return invalid_argument("params must be at least 1-D, got shape ", params);
  if (updates.rank() == 0) return {};
  bool fits = updates.rank() == indices.rank() + params.rank() - 1;
  for (int d = 0; fits && d < indices.rank(); ++d) fits = updates.dim(d) == indices.dim(d);
  for (int d = 1; fits && d < params.rank(); ++d) fits = updates.dim(indices.rank() + d - 1) == params.dim(d);
  if (fits) return {};
  return invalid_argument(
      "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape ",
      updates.shape(), ", indices.shape ", indices, ", params.shape ", params);
}

Status update_rows(const std::shared_ptr<ResourceSlot>& slot, RowUpdate kind, const Tensor& indices,
                   const Tensor& updates) {
  TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/true));
  const Tensor& params = update.old_value(0);
  if (params.dtype() != updates.dtype()) {
    return invalid_argument("variable ", printable(slot->name()), " is ", dtype_name(params.dtype()), ", updates are ",
                            dtype_name(updates.dtype()));
  }
  TUTTI_RETURN_IF_ERROR(check_row_shapes(params.shape(), indices.shape(), updates));
  TUTTI_RETURN_IF_ERROR(check_indices(indices, params.dim(0)));
  const std::int64_t row = elements_from(params.shape(), 1);
  if (kind == RowUpdate::kUpdate) {
    replace_rows(indices, updates, row, update.new_value(0));
  } else {
    TUTTI_RETURN_IF_ERROR(combine_rows(kind, indices, updates, row, update.new_value(0)));
  }
  update.commit();
  return {};
}

// By coordinates instead of rows.
Status update_slices(const std::shared_ptr<ResourceSlot>& slot, RowUpdate kind, const Tensor& indices,
                     const Tensor& updates) {
  TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/true));
  if (update.old_value(0).dtype() != updates.dtype()) {
    return invalid_argument("variable ", printable(slot->name()), " is ", dtype_name(update.old_value(0).dtype()),
                            ", updates are ", dtype_name(updates.dtype()));
  }
  const BinaryFunction function = BinaryFunction::find(arithmetic_of(kind), updates.dtype());
  if (kind != RowUpdate::kUpdate && !function) return unimplemented("no arithmetic on ", dtype_name(updates.dtype()));
  TUTTI_RETURN_IF_ERROR(
      scatter_slices(indices, updates, kind == RowUpdate::kUpdate ? nullptr : &function, update.new_value(0)));
  update.commit();
  return {};
}

using UpdateFn = Status (*)(const std::shared_ptr<ResourceSlot>&, RowUpdate, const Tensor&, const Tensor&);

class Scatter : public Kernel {
 public:
  Scatter(UpdateFn function, RowUpdate update) : function_(function), update_(update) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(auto slot, reference_slot(ctx));
    TUTTI_RETURN_IF_ERROR(function_(slot, update_, ctx.input(1), ctx.input(2)));
    ctx.set_output_ref(0, std::move(slot));
    return {};
  }

 private:
  const UpdateFn function_;
  const RowUpdate update_;
};

class ResourceScatter : public Kernel {
 public:
  ResourceScatter(UpdateFn function, RowUpdate update) : function_(function), update_(update) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(auto slot, input_slot(ctx, 0));
    return function_(slot, update_, ctx.input(1), ctx.input(2));
  }

 private:
  const UpdateFn function_;
  const RowUpdate update_;
};

// --- Resource variables. ---

class VarHandle : public Kernel {
 public:
  explicit VarHandle(Tensor handle) : handle_(std::move(handle)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init, Unnamed::kByNode));
    Tensor handle = Tensor::scalar(ResourceHandle(std::string(init.device), std::move(slot)));
    return std::unique_ptr<Kernel>(std::make_unique<VarHandle>(std::move(handle)));
  }
  Status compute(KernelContext& ctx) override {
    ctx.set_output(0, handle_);
    return {};
  }

 private:
  const Tensor handle_;
};

Status not_readable(const ResourceSlot& slot) {
  return failed_precondition("Error while reading resource variable ", printable(slot.name()),
                             " from Container: ", printable(slot.container()),
                             ". This could mean that the variable was uninitialized.");
}

// The current version of the variable behind input 0.
Result<Tensor> read_input_variable(KernelContext& ctx, DType dtype) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  const auto variable = variable_in(*slot);
  if (!variable) return not_readable(*slot);
  Tensor value = variable->read();
  if (!value.has_value()) return not_readable(*slot);
  if (value.dtype() != dtype) {
    return invalid_argument("Trying to read variable ", printable(slot->name()), " with wrong dtype. Expected ",
                            dtype_name(dtype), " got ", dtype_name(value.dtype()));
  }
  return value;
}

class ReadVariable : public Kernel {
 public:
  explicit ReadVariable(const KernelInit& init) : dtype_(init.attr<DType>("dtype")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor value, read_input_variable(ctx, dtype_));
    ctx.set_output(0, std::move(value));
    return {};
  }

 private:
  const DType dtype_;
};

class AssignVariable : public Kernel {
 public:
  explicit AssignVariable(const KernelInit& init)
      : dtype_(init.attr<DType>("dtype")), validate_shape_(init.attr<bool>("validate_shape")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
    const Tensor& value = ctx.input(1);
    TUTTI_ASSIGN_OR_RETURN(const auto variable, find_or_make(*slot, dtype_));
    if (validate_shape_) {
      const Tensor now = variable->read();
      if (now.has_value() && now.shape() != value.shape()) {
        return invalid_argument("Trying to assign to variable ", printable(slot->name()),
                                " with tensor with wrong shape. Expected ", now.shape(), " got ", value.shape());
      }
    }
    variable->assign(value);
    return {};
  }

 private:
  const DType dtype_;
  const bool validate_shape_;
};

class DestroyResource : public Kernel {
 public:
  explicit DestroyResource(const KernelInit& init) : ignore_lookup_error_(init.attr<bool>("ignore_lookup_error")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
    if (destroy_resource(*slot) || ignore_lookup_error_) return {};
    return not_found("Resource ", printable(slot->container()), "/", printable(slot->name()), " does not exist");
  }

 private:
  const bool ignore_lookup_error_;
};

class ResourceGather : public Kernel {
 public:
  explicit ResourceGather(const KernelInit& init)
      : dtype_(init.attr<DType>("dtype")), batch_dims_(init.attr<std::int64_t>("batch_dims")) {}
  Status compute(KernelContext& ctx) override {
    // Holding the tensor pins the version, so that updates meanwhile go elsewhere.
    TUTTI_ASSIGN_OR_RETURN(const Tensor params, read_input_variable(ctx, dtype_));
    return gather_rows(ctx, params, ctx.input(1), batch_dims_, batch_dims_);
  }

 private:
  const DType dtype_;
  const std::int64_t batch_dims_;
};

}  // namespace

KernelFactory variable_kernel() { return kernel_of<VariableKernel>(); }
KernelFactory temporary_variable_kernel() { return kernel_of<TemporaryVariable>(); }

namespace {

class DestroyTemporaryVariable : public Kernel {
 public:
  explicit DestroyTemporaryVariable(const KernelInit& init) : name_(init.attr<std::string>("var_name")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto slot, reference_slot(ctx));
    const auto destroyed = ctx.step().step_resources().slot(kTemporaries, name_);
    if (!destroyed->get()) return not_found("Resource ", kTemporaries, "/", printable(name_), " does not exist.");
    const auto variable = variable_in(*slot);
    if (!variable || !variable->initialised()) {
      return failed_precondition("Attempting to use uninitialized value ", printable(slot->name()));
    }
    ctx.set_output(0, variable->read());
    destroyed->clear();
    return {};
  }

 private:
  const std::string name_;
};

}  // namespace

KernelFactory destroy_temporary_variable_kernel() { return kernel_of<DestroyTemporaryVariable>(); }

Status is_variable_initialized(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, reference_slot(ctx));
  return set_bool(ctx, is_initialised(*slot));
}

KernelFactory assign_kernel() { return kernel_of<Assign>(); }

Status assign_add(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(auto slot, reference_slot(ctx));
  TUTTI_RETURN_IF_ERROR(update_by_value(BinaryOp::kAdd, slot, ctx.input(1), ctx.team()));
  ctx.set_output_ref(0, std::move(slot));
  return {};
}

Status assign_sub(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(auto slot, reference_slot(ctx));
  TUTTI_RETURN_IF_ERROR(update_by_value(BinaryOp::kSub, slot, ctx.input(1), ctx.team()));
  ctx.set_output_ref(0, std::move(slot));
  return {};
}

namespace {

template <typename K>
KernelFactory scattering(UpdateFn function, RowUpdate update) {
  return [function, update](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<K>(function, update));
  };
}

}  // namespace

KernelFactory scatter_kernel(RowUpdate update) { return scattering<Scatter>(update_rows, update); }
KernelFactory scatter_nd_kernel(RowUpdate update) { return scattering<Scatter>(update_slices, update); }

KernelFactory count_up_to_kernel() { return kernel_of<CountUpTo>(); }
KernelFactory var_handle_kernel() { return kernel_of<VarHandle>(); }
KernelFactory read_variable_kernel() { return kernel_of<ReadVariable>(); }
KernelFactory assign_variable_kernel() { return kernel_of<AssignVariable>(); }

Status assign_add_variable(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return update_by_value(BinaryOp::kAdd, slot, ctx.input(1), ctx.team());
}

Status assign_sub_variable(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return update_by_value(BinaryOp::kSub, slot, ctx.input(1), ctx.team());
}

Status var_is_initialized(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return set_bool(ctx, is_initialised(*slot));
}

Status variable_shape(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  const auto variable = variable_in(*slot);
  const Tensor value = variable ? variable->read() : Tensor();
  if (!value.has_value()) return not_readable(*slot);
  TUTTI_RETURN_IF_ERROR(check_fits(value.shape().dims(), ctx.output_type(0), "dimension"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{value.rank()}));
  write_indices(value.shape().dims(), *out);
  return {};
}

KernelFactory destroy_resource_kernel() { return kernel_of<DestroyResource>(); }
KernelFactory resource_gather_kernel() { return kernel_of<ResourceGather>(); }

KernelFactory resource_scatter_kernel(RowUpdate update) { return scattering<ResourceScatter>(update_rows, update); }
KernelFactory resource_scatter_nd_kernel(RowUpdate update) {
  return scattering<ResourceScatter>(update_slices, update);
}

}  // namespace tutti::cpu

#include "tutti/ops/op_evaluator.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/kernels/guard.h"

namespace tutti {
namespace {

// Resources that live as long as one evaluation.
class EvaluationStore : public ResourceStore {
 public:
  std::shared_ptr<ResourceSlot> slot(std::string_view container, std::string_view name) override {
    MutexLock lock(mu_);
    std::shared_ptr<ResourceSlot>& slot = slots_[{std::string(container), std::string(name)}];
    if (!slot) slot = std::make_shared<ResourceSlot>(std::string(container), std::string(name));
    return slot;
  }

 private:
  Mutex mu_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ResourceSlot>> slots_ TUTTI_GUARDED_BY(mu_);
};

class EvaluationScope : public StepScope {
 public:
  EvaluationScope(const Services& with, ResourceStore* store) : store_(store) {
    cancellation = &own_cancellation_;
    allocator = &heap_allocator();
    services = with;
  }
  ResourceStore& step_resources() override { return store_ != nullptr ? *store_ : own_store_; }

 private:
  Cancellation own_cancellation_;
  ResourceStore* const store_;  // the caller's, or null
  EvaluationStore own_store_;
};

struct Types {
  std::vector<EdgeType> inputs;
  std::vector<EdgeType> outputs;
};

Status check_inputs(const OpDef& op, const Types& types, const std::vector<Tensor>& inputs) {
  if (types.inputs.size() != inputs.size()) {
    return invalid_argument(op.name, ": ", inputs.size(), " inputs given, ", types.inputs.size(), " wanted");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (types.inputs[i].is_ref) {
      return invalid_argument(op.name, ": input ", i, " is a reference, which needs a session");
    }
    if (types.inputs[i].dtype != inputs[i].dtype()) {
      return invalid_argument(op.name, ": input ", i, " is ", dtype_name(inputs[i].dtype()), ", wanted ",
                              types.inputs[i].to_string());
    }
  }
  return {};
}

Result<Types> complete(const OpDef& op, const std::vector<Tensor>& inputs, AttrMap* attrs) {
  std::vector<EdgeType> given;
  for (const Tensor& input : inputs) given.push_back({input.dtype(), false});
  TUTTI_RETURN_IF_ERROR(infer_attrs(op, given, attrs));
  TUTTI_RETURN_IF_ERROR(complete_attrs(op, attrs));
  Types types;
  TUTTI_RETURN_IF_ERROR(resolve_types(op, *attrs, &types.inputs, &types.outputs));
  TUTTI_RETURN_IF_ERROR(check_inputs(op, types, inputs));
  return types;
}

Result<std::vector<Tensor>> run_kernel(Kernel& kernel, const Types& types, const std::vector<Tensor>& inputs,
                                       const Services& services, ResourceStore* step_resources) {
  std::vector<Value> slots(inputs.size());
  std::vector<std::uint32_t> index(inputs.size());
  std::vector<std::uint8_t> last_use(inputs.size(), 0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slots[i].tensor = inputs[i];
    index[i] = static_cast<std::uint32_t>(i);
  }
  std::vector<Value> outputs(types.outputs.size());
  std::vector<DType> output_types;
  for (const EdgeType& type : types.outputs) output_types.push_back(type.dtype);

  EvaluationScope step(services, step_resources);
  KernelContext context(step, {.slots = slots.data(),
                               .input_index = index.data(),
                               .last_use = last_use.data(),
                               .outputs = outputs.data(),
                               .output_types = output_types.data(),
                               .num_inputs = static_cast<int>(slots.size()),
                               .num_outputs = static_cast<int>(outputs.size())});
  TUTTI_RETURN_IF_ERROR(guarded_compute(kernel, context));
  std::vector<Tensor> results;
  for (Value& output : outputs) results.push_back(std::move(output.tensor));
  return results;
}

}  // namespace

Result<std::vector<Tensor>> evaluate_op(const OpTable& table, std::string_view op, AttrMap attrs,
                                        const std::vector<Tensor>& inputs, const Services& services,
                                        ResourceStore* step_resources) {
  const OpDef* def = table.registry()->find(op);
  if (def == nullptr) return not_found("Op type not registered '", printable(op), "'");
  TUTTI_ASSIGN_OR_RETURN(Types types, complete(*def, inputs, &attrs));
  const KernelEntry* entry = table.find_kernel(op, attrs, kCpu);
  if (entry == nullptr) return unimplemented(op, ": no CPU kernel for these types");
  KernelInit init{.node = op,
                  .op = op,
                  .attrs = attrs,
                  .input_types = types.inputs,
                  .output_types = types.outputs,
                  .device = "/job:localhost/replica:0/task:0/device:CPU:0",
                  .services = services};
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, guarded_make(entry->make, init));
  if (kernel->may_block()) return invalid_argument(op, ": an op that may wait needs a session");
  return run_kernel(*kernel, types, inputs, services, step_resources);
}

}  // namespace tutti

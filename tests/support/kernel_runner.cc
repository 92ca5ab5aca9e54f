#include "tests/support/kernel_runner.h"

#include <gtest/gtest.h>

#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::testing {

namespace {

class MapStore : public ResourceStore {
 public:
  std::shared_ptr<ResourceSlot> slot(std::string_view container, std::string_view name) override {
    MutexLock lock(mu_);
    auto& slot = slots_[{std::string(container), std::string(name)}];
    if (!slot) slot = std::make_shared<ResourceSlot>(std::string(container), std::string(name));
    return slot;
  }

 private:
  Mutex mu_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ResourceSlot>> slots_ TUTTI_GUARDED_BY(mu_);
};

EdgeType type_of(const Value& value) {
  if (value.ref) {
    const auto variable = variable_in(*value.ref);
    return {variable ? variable->dtype() : DType::kInvalid, true};
  }
  return {value.tensor.dtype(), false};
}

}  // namespace

std::unique_ptr<ResourceStore> make_test_store() { return std::make_unique<MapStore>(); }

TestStep::TestStep(ResourceStore& resources) : step_resources_(make_test_store()) {
  cancellation = &own_cancellation_;
  allocator = &heap_allocator();
  services.resources = &resources;
}

TestStep::~TestStep() = default;

KernelRunner::KernelRunner(std::shared_ptr<const OpTable> table)
    : table_(std::move(table)), resources_(make_test_store()), step_(std::make_unique<TestStep>(*resources_)) {}

void KernelRunner::new_step() {
  old_steps_.push_back(std::move(step_));
  step_ = std::make_unique<TestStep>(*resources_);
}

std::unique_ptr<KernelRun> KernelRunner::start(const std::string& node, const std::string& op, AttrMap attrs,
                                               std::vector<Value> inputs) {
  auto run = std::make_unique<KernelRun>();
  const auto fail = [&](Status status) {
    run->status_ = std::move(status);
    run->finished_ = true;
    return std::move(run);
  };
  const OpDef* def = table_->registry()->find(op);
  if (def == nullptr) return fail(not_found("no op ", op));
  std::vector<EdgeType> given;
  for (const Value& input : inputs) given.push_back(type_of(input));
  std::vector<EdgeType> input_types, output_types;
  if (Status s = infer_attrs(*def, given, &attrs); !s.ok()) return fail(s);
  if (Status s = complete_attrs(*def, &attrs); !s.ok()) return fail(s);
  if (Status s = resolve_types(*def, attrs, &input_types, &output_types); !s.ok()) return fail(s);
  if (input_types.size() != inputs.size()) return fail(invalid_argument(op, ": wrong number of inputs"));

  std::unique_ptr<Kernel>& kernel = kernels_[node];
  if (!kernel) {
    const KernelEntry* entry = table_->find_kernel(op, attrs, kCpu);
    if (entry == nullptr) return fail(not_found("no kernel for ", op));
    auto made = entry->make({.node = node,
                             .op = op,
                             .attrs = attrs,
                             .input_types = input_types,
                             .output_types = output_types,
                             .device = "/job:localhost/replica:0/task:0/device:CPU:0",
                             .services = step_->services});
    if (!made.ok()) return fail(made.status());
    kernel = *std::move(made);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // As the executor does for a reference that is read as a plain input.
    if (inputs[i].ref && !input_types[i].is_ref) {
      const auto variable = variable_in(*inputs[i].ref);
      inputs[i] = {.tensor = variable ? variable->read() : Tensor(), .ref = nullptr};
    }
    run->index_.push_back(static_cast<std::uint32_t>(i));
    run->last_use_.push_back(last_use_);
  }
  run->slots_ = std::move(inputs);
  run->outputs_.resize(output_types.size());
  for (const EdgeType& type : output_types) run->output_types_.push_back(type.dtype);
  run->context_ = std::make_unique<KernelContext>(
      *step_, KernelContext::Frame{.slots = run->slots_.data(),
                                   .input_index = run->index_.data(),
                                   .last_use = run->last_use_.data(),
                                   .outputs = run->outputs_.data(),
                                   .output_types = run->output_types_.data(),
                                   .num_inputs = static_cast<int>(run->slots_.size()),
                                   .num_outputs = static_cast<int>(run->outputs_.size())});
  KernelRun* raw = run.get();
  const auto done = [raw](Status status) {
    EXPECT_FALSE(raw->finished_) << "done ran twice";
    raw->status_ = std::move(status);
    raw->finished_ = true;
  };
  if (kernel->may_block()) {
    static_cast<AsyncKernel&>(*kernel).compute_async(*run->context_, done);
  } else {
    done(kernel->compute(*run->context_));
  }
  return run;
}

std::unique_ptr<KernelRun> KernelRunner::run(const std::string& node, const std::string& op, AttrMap attrs,
                                             std::vector<Value> inputs) {
  auto run = start(node, op, std::move(attrs), std::move(inputs));
  EXPECT_TRUE(run->finished()) << op << " is still waiting";
  return run;
}

}  // namespace tutti::testing

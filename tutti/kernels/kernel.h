// The contract between the executor and the code that computes.
//
// A Kernel is made once for each node of a session and then used by many steps at once, so `compute`
// must not change it without a lock of its own. A KernelContext is one execution of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tutti/core/attr_value.h"
#include "tutti/core/cancellation.h"
#include "tutti/core/status.h"
#include "tutti/core/team.h"
#include "tutti/core/tensor.h"
#include "tutti/kernels/services.h"

namespace tutti {

class StepTrace;

// What one edge carries in a step: a tensor, or on a reference edge the slot of a variable.
struct Value {
  Tensor tensor;
  std::shared_ptr<ResourceSlot> ref;
};

// What is the same for all nodes of one step. Made by the executor; outlives every kernel of the step.
class StepScope {
 public:
  virtual ~StepScope() = default;

  std::int64_t step_id = 0;
  Cancellation* cancellation = nullptr;  // never null
  Rendezvous* rendezvous = nullptr;      // null in steps that neither send nor receive
  Allocator* allocator = nullptr;        // the step's arena; never null
  Allocator* sent_values = nullptr;      // for values that go straight to another task; null: the arena too
  Services services;
  Team* team = &Team::alone();  // the threads that one kernel may use
  StepTrace* trace = nullptr;   // null unless the step is being timed

  // Resources that die with the step (stacks, tensor arrays). Created on first use. Thread-safe.
  virtual ResourceStore& step_resources() = 0;
};

// What a kernel is made from. Lives only while the kernel is being made.
struct KernelInit {
  std::string_view node;
  std::string_view op;
  const AttrMap& attrs;  // complete: defaults are filled in
  std::span<const EdgeType> input_types;
  std::span<const EdgeType> output_types;
  std::string_view device;  // full name of the device it will run on
  Services services;

  // REQUIRES: the op declares `name` with this kind (nodes were checked against it).
  template <typename T>
  const T& attr(std::string_view name) const {
    auto it = attrs.find(name);
    TUTTI_CHECK(it != attrs.end(), op, " has no attribute ", name);
    const T* value = it->second.get<T>();
    TUTTI_CHECK(value != nullptr, op, ".", name, " is ", it->second.to_string());
    return *value;
  }
};

// Where among v1 loops a node runs: the execution of a loop that it belongs to, and its iteration. The same in every
// task that runs a part of the loop. {0, 0} outside of loops.
struct LoopPosition {
  std::uint64_t frame = 0;
  std::int64_t iteration = 0;
};

// One execution of a kernel: inputs, outputs, memory, services. Used by one thread at a time.
class KernelContext {
 public:
  // The executor's view: inputs are slots[input_index[i]], outputs are the `num_outputs` values at `outputs`.
  struct Frame {
    Value* slots = nullptr;
    const std::uint32_t* input_index = nullptr;
    const std::uint8_t* last_use = nullptr;  // per input: this node reads it once, and nobody after it
    Value* outputs = nullptr;
    const DType* output_types = nullptr;
    int num_inputs = 0;
    int num_outputs = 0;
    const LoopPosition* loop = nullptr;  // null: outside of loops
    bool sent = false;                   // the outputs go straight to another task
  };
  KernelContext(StepScope& step, const Frame& frame) : step_(step), frame_(frame) {}

  int num_inputs() const { return frame_.num_inputs; }
  int num_outputs() const { return frame_.num_outputs; }
  // The value of input i; of a reference read as a plain input, the value when this node started.
  const Tensor& input(int i) const { return frame_.slots[frame_.input_index[i]].tensor; }
  // The variable behind reference input i.
  const std::shared_ptr<ResourceSlot>& input_ref(int i) const { return frame_.slots[frame_.input_index[i]].ref; }

  DType output_type(int i) const { return frame_.output_types[i]; }
  Tensor& output(int i) { return frame_.outputs[i].tensor; }
  void set_output(int i, Tensor value) { frame_.outputs[i].tensor = std::move(value); }
  void set_output_ref(int i, std::shared_ptr<ResourceSlot> slot) { frame_.outputs[i].ref = std::move(slot); }

  // Step memory for output i, of the output's type; contents undefined.
  Result<Tensor*> allocate_output(int i, const Shape& shape);
  // Output `out` in the memory of input `in` when nobody else needs that, no other input of this node is in it, and it
  // fits; else null.
  Tensor* forward(int in, int out, const Shape& shape);
  // The memory of input `in` when nobody else needs it and it fits, else allocate_output. The kernel may
  // then read input `in` element by element while it writes the output.
  Result<Tensor*> forward_or_allocate(int in, int out, const Shape& shape);
  // Step memory that dies with the last holder.
  Result<Tensor> allocate_temp(DType dtype, const Shape& shape) {
    return Tensor::create(dtype, shape, *step_.allocator);
  }

  StepScope& step() { return step_; }
  LoopPosition loop() const { return frame_.loop != nullptr ? *frame_.loop : LoopPosition(); }
  Allocator& allocator() { return *step_.allocator; }
  Cancellation& cancellation() { return *step_.cancellation; }
  Team& team() const { return *step_.team; }
  const Services& services() const { return step_.services; }

 private:
  bool goes_elsewhere() const { return frame_.sent && step_.sent_values != nullptr; }

  StepScope& step_;
  const Frame frame_;
};

// Computes outputs from inputs on the calling thread. Must not wait for another kernel or for the
// outside; what waits is an AsyncKernel. Every output must be set on success, except references to
// nothing and the untaken outputs of Switch.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status compute(KernelContext& context) = 0;
  // True: the executor calls AsyncKernel::compute_async. Constant over the kernel's life.
  virtual bool may_block() const { return false; }
};

// A kernel that may wait: it returns at once, holding no thread, and calls `done` exactly once, from
// any thread, possibly before it returns. Inputs and outputs in `context` stay valid until then. When the
// step is cancelled it must call `done` soon, with the cancellation's status.
class AsyncKernel : public Kernel {
 public:
  using Done = std::function<void(Status)>;
  virtual void compute_async(KernelContext& context, Done done) = 0;
  Status compute(KernelContext&) override { return internal_error("an asynchronous kernel was run synchronously"); }
  bool may_block() const override { return true; }
};

using KernelFn = Status (*)(KernelContext&);
using KernelFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelInit&)>;

// A kernel without attributes or state, as a plain function.
KernelFactory kernel_from(KernelFn function);

// A kernel class with a constructor `explicit K(const KernelInit&)`, or, where making one can fail, a
// `static Result<std::unique_ptr<Kernel>> create(const KernelInit&)`.
template <typename K>
KernelFactory kernel_of() {
  if constexpr (requires(const KernelInit& init) { K::create(init); }) {
    return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> { return K::create(init); };
  } else {
    return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
      return std::unique_ptr<Kernel>(std::make_unique<K>(init));
    };
  }
}

}  // namespace tutti

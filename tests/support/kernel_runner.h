// Running the kernels of single nodes by hand: with references, with state that lives between runs, and with
// kernels that wait. What op_evaluator leaves out.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/kernel.h"
#include "tutti/ops/op_table.h"

namespace tutti::testing {

// A step that keeps its resources in a map.
class TestStep : public StepScope {
 public:
  explicit TestStep(ResourceStore& resources);
  ~TestStep() override;
  ResourceStore& step_resources() override { return *step_resources_; }

 private:
  Cancellation own_cancellation_;
  std::unique_ptr<ResourceStore> step_resources_;
};

std::unique_ptr<ResourceStore> make_test_store();

// One execution under way. Must outlive the step's callbacks: keep it until finished().
class KernelRun {
 public:
  bool finished() const { return finished_.load(); }
  // REQUIRES: finished()
  const Status& status() const { return status_; }
  const Value& output(int i) const { return outputs_[i]; }
  const Tensor& tensor(int i = 0) const { return outputs_[i].tensor; }

 private:
  friend class KernelRunner;
  std::vector<Value> slots_;
  std::vector<std::uint32_t> index_;
  std::vector<std::uint8_t> last_use_;
  std::vector<DType> output_types_;
  std::vector<Value> outputs_;
  std::unique_ptr<KernelContext> context_;
  Status status_;
  std::atomic<bool> finished_{false};
};

// Kernels are made once per node name and live as long as the runner, as in a session.
class KernelRunner {
 public:
  explicit KernelRunner(std::shared_ptr<const OpTable> table = builtin_ops());

  // Inputs: tensors, or references as outputs of earlier runs. Types and defaults are filled in.
  std::unique_ptr<KernelRun> start(const std::string& node, const std::string& op, AttrMap attrs,
                                   std::vector<Value> inputs);
  // The same for a kernel that must finish at once; fails the test when it does not.
  std::unique_ptr<KernelRun> run(const std::string& node, const std::string& op, AttrMap attrs = {},
                                 std::vector<Value> inputs = {});

  TestStep& step() { return *step_; }
  // The next runs belong to another step.
  void new_step();
  // The next kernels are told that nobody reads their inputs after them.
  void give_up_inputs() { last_use_ = 1; }
  ResourceStore& resources() { return *resources_; }

 private:
  std::shared_ptr<const OpTable> table_;
  std::unique_ptr<ResourceStore> resources_;
  std::vector<std::unique_ptr<TestStep>> old_steps_;
  std::unique_ptr<TestStep> step_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::uint8_t last_use_ = 0;
};

inline Value value_of(Tensor tensor) { return {std::move(tensor), nullptr}; }

}  // namespace tutti::testing

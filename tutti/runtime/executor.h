// Running a compiled body. See docs/design/0002-executor.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/core/thread_pool.h"
#include "tutti/graph/function.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

// A body compiled to kernels: immutable, shared by any number of concurrent runs.
class Executable {
 public:
  using Done = std::function<void(Status, std::vector<Tensor>)>;

  virtual ~Executable() = default;
  // Whether a run can wait for something other than arithmetic.
  virtual bool may_block() const = 0;
  virtual int num_args() const = 0;
  // What it runs, as the passes left it.
  virtual const Graph& graph() const = 0;
  // Runs in `step`, starting on the calling thread. `done` is called exactly once with the results in order,
  // possibly before this returns, possibly on another thread. The executable and `step` must outlive that.
  // Another number of arguments than num_args() is an error.
  void run(StepScope& step, std::vector<Tensor> args, Done done) const;
  // The same on the calling thread alone. REQUIRES: !may_block().
  Status run_inline(StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) const;

 private:
  virtual void start(StepScope& step, std::vector<Tensor> args, Done done) const = 0;
};

// Where kernels come from: it keeps the stateful ones for as long as the session lives, so that every
// signature sees the same state.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  virtual Result<std::shared_ptr<Kernel>> kernel_for(const Node& node) = 0;
};

struct CompileOptions {
  KernelSource* kernels = nullptr;  // used while compiling only
  ThreadPool* pool = nullptr;       // continues runs after something they waited for; outlives them
  // Independent expensive nodes of one run may go to the pool's threads at the same time.
  bool parallel_nodes = false;
  // Errors end in "\n\t [[{{node NAME}}]]", where TensorFlow's clients look for the node that failed.
  bool mark_nodes = false;
};

// Errors name the node.
Result<std::unique_ptr<Executable>> compile(FunctionBody body, const CompileOptions& options);

}  // namespace tutti

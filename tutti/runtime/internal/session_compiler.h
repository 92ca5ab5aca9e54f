// From bodies to executables, for one session: passes, placement, kernels, functions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/executor.h"
#include "tutti/runtime/local_runtime.h"

namespace tutti::internal {

// Compiles bodies and the functions they call, and keeps stateful kernels for as long as the session lives.
// Thread-safe; one thread compiles at a time.
class SessionCompiler : public FunctionRunner, private ConstantEvaluator {
 public:
  struct Options {
    std::shared_ptr<const OpTable> ops;
    LocalRuntime* runtime = nullptr;
    ResourceStore* resources = nullptr;     // null: the runtime's
    std::shared_ptr<MemoryAccount> memory;  // null: not counted
    PassOptions passes;                     // of functions
    bool allow_soft_placement = false;
    bool parallel_nodes = false;
    bool mark_nodes = false;  // see CompileOptions
  };
  // `graph` has the ops and the functions that bodies share.
  SessionCompiler(Graph& graph, Options options);
  ~SessionCompiler() override;

  // Held while the graph is read or changed. Recursive: making a kernel may compile the functions it calls.
  std::recursive_mutex& mutex() { return mu_; }
  Services services();
  // A function that could not be compiled is not tried again until this, since it may call one that was missing.
  void forget_failures();

  // Of what is compiled from now on, functions included.
  void set_allow_soft_placement(bool allow);

  // Ends early, with its cause, when `caller` is cancelled; null: never.
  Result<std::shared_ptr<const Executable>> compile_body(FunctionBody body, const PassOptions& passes,
                                                         const Cancellation* caller = nullptr);
  // Nobody wants the session any more: what is being compiled, and all later attempts, fail with `cause`.
  void stop(Status cause) { stopped_.cancel(std::move(cause)); }

  // FunctionRunner
  Result<Handle> instantiate(const FunctionRef& function) override;
  bool may_block(Handle handle) const override;
  void run(Handle handle, StepScope& step, std::vector<Tensor> args, Done done) override;
  Status run_inline(Handle handle, StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) override;

 private:
  class Kernels;
  struct Instance {
    FunctionRef function;
    Handle handle;
  };
  struct Function {
    std::string name;
    std::shared_ptr<const Executable> executable;  // null while it is being compiled, and when that failed
    Status failure;
  };

  struct KernelKey {
    std::string scope;  // the function that the node is in
    std::string calls;  // through which it was brought there, where it was
    std::string node;
    auto operator<=>(const KernelKey&) const = default;
  };
  struct StatefulKernel {
    std::shared_ptr<Kernel> kernel;
    std::string op;
    AttrMap attrs;
  };

  Result<std::vector<Tensor>> evaluate(const Node& node, const std::vector<Tensor>& inputs) override;
  Result<std::shared_ptr<const Executable>> compile_in(const std::string& scope, FunctionBody body,
                                                       const PassOptions& passes);
  Result<std::shared_ptr<const Executable>> executable_of(Handle handle) const;
  // Whether somebody still waits for what is being compiled. REQUIRES: mu_ is held.
  Status check_wanted() const;
  Status check_room(const FunctionRef& function) const;

  Graph& graph_;
  const Options options_;
  Cancellation stopped_;
  std::recursive_mutex mu_;
  // Guarded by mu_.
  bool allow_soft_placement_;
  const Cancellation* caller_ = nullptr;  // of the call that compiles now; null: it cannot be cancelled
  std::map<KernelKey, StatefulKernel> stateful_kernels_;
  std::multimap<std::string, Instance> handles_;  // by function name
  std::size_t function_nodes_ = 0;                // of all compiled functions

  mutable Mutex functions_mu_;
  std::vector<Function> functions_ TUTTI_GUARDED_BY(functions_mu_);  // by handle
};

}  // namespace tutti::internal

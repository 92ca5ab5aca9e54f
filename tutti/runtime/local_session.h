// A session on the own machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/graph/passes/passes.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_runtime.h"
#include "tutti/runtime/session.h"

namespace tutti {

struct SessionOptions {
  // The ops that the graph was built with.
  std::shared_ptr<const OpTable> ops = builtin_ops();
  // Shared with other sessions, so that they see the same variables; null: one of its own.
  std::shared_ptr<LocalRuntime> runtime;
  // For a runtime of its own.
  RuntimeOptions threads;
  PassOptions passes;
  // Runs a node whose device does not exist, or has no kernel for it, somewhere else.
  bool allow_soft_placement = false;
  // Independent expensive nodes of a step run side by side, on the runtime's inter-op threads.
  bool parallel_nodes = false;
};

// Runs `graph`, which must outlive the session and may grow between runs (not during one that is the first
// of its signature). Destroying it closes it.
class LocalSession : public Session {
 public:
  explicit LocalSession(Graph& graph, SessionOptions options = {});
  ~LocalSession() override;

  Result<CallableId> make_callable(const Signature& signature) override;
  void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                          Done done) override;
  Status release_callable(CallableId callable) override;
  using Session::partial_run_setup;
  Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options) override;
  Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                          const std::vector<TensorName>& fetches) override;
  Status extend(std::string_view graph_def) override;
  std::vector<std::string> list_devices() override;
  Status close() override;

  LocalRuntime& runtime();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

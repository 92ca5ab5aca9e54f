// A slow and obvious way to run a graph: every needed node once, in topological order, each with a kernel made
// for the occasion. Shares nothing with the executor, so that the two can be compared.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/tensor.h"
#include "tutti/graph/graph.h"
#include "tutti/ops/op_table.h"

namespace tutti::testing {

// Not for reference variables, v1 control flow or nodes that wait. Variables live as long as the evaluator.
class GraphEvaluator {
 public:
  explicit GraphEvaluator(std::shared_ptr<const OpTable> table = builtin_ops());
  ~GraphEvaluator();

  using Feeds = std::vector<std::pair<Output, Tensor>>;

  Result<std::vector<Tensor>> try_run(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                                      const std::vector<Node*>& targets = {});
  // Throws Error.
  std::vector<Tensor> run(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Node*>& targets = {});
  Tensor run(Output fetch, const Feeds& feeds = {}) { return run(fetch.graph(), feeds, {fetch})[0]; }
  void run_target(Node* target, const Feeds& feeds = {}) { run(target->graph(), feeds, {}, {target}); }

 private:
  class Functions;
  class Store;
  Result<std::vector<Tensor>> evaluate(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                                       const std::vector<Node*>& targets);
  Result<std::vector<Tensor>> evaluate_node(Node& node, std::vector<Tensor> inputs, Store& step);

  std::shared_ptr<const OpTable> table_;
  std::unique_ptr<Store> store_;
};

// Elements as doubles, of any real type.
std::vector<double> to_doubles(const Tensor& tensor);

}  // namespace tutti::testing

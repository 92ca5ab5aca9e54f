#include "tutti/ops/builders.h"

#include <utility>

namespace tutti {

Node* add_op(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs, const std::string& name) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) throw_error(invalid_argument(op, ": input ", i, " is empty"));
  }
  NodeSpec spec;
  spec.op = op;
  spec.name = name;
  spec.inputs = std::move(inputs);
  spec.attrs = std::move(attrs);
  return graph.add_node(std::move(spec)).value_or_throw();
}

Output op1(const std::string& op, std::vector<Output> inputs, AttrMap attrs, const std::string& name) {
  if (inputs.empty() || !inputs.front()) throw_error(invalid_argument(op, ": input 0 is empty"));
  Graph& graph = inputs.front().graph();
  return add_op(graph, op, std::move(inputs), std::move(attrs), name)->output(0);
}

}  // namespace tutti

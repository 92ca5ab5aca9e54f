// A small op registry of its own for the tests of the graph layer, and short ways to make nodes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/passes/passes.h"

namespace tutti::testing {

std::shared_ptr<const OpRegistry> test_ops();

// A GraphDef or FunctionDef written as text, as bytes.
std::string graph_def_bytes(const std::string& text);
std::string function_def_bytes(const std::string& text);

// Throws Error on failure.
Node* add(Graph& graph, const std::string& op, std::vector<Output> inputs = {}, AttrMap attrs = {},
          const std::string& name = "");
Output constant(Graph& graph, const Tensor& value, const std::string& name = "");
Output placeholder(Graph& graph, DType dtype, const PartialShape& shape, const std::string& name = "");

std::vector<std::string> names(const std::vector<Node*>& nodes);

// Knows Add, Mul, Neg, Identity, Cast and Split of float and int32 tensors of one shape. Counts what it computes.
class TestEvaluator : public ConstantEvaluator {
 public:
  Result<std::vector<Tensor>> evaluate(const Node& node, const std::vector<Tensor>& inputs) override;
  int calls = 0;
};

}  // namespace tutti::testing

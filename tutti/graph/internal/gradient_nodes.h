// Nodes that gradients are made of, whatever they are gradients of.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/gradients.h"

namespace tutti::internal {

// All of these throw Error and make nodes under the open scopes.
Output make_node(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs = {});
Output make_const(Graph& graph, Tensor value);
// A tensor of `value`s (0 or 1) shaped like `like`, reading `like` only when its shape is not known here: inside a
// loop's body every value that the gradient reads has to be kept for each iteration.
Output filled_like(Output like, int value);
// Zeros for a missing gradient of `value`, of which at most the shape is read. `dtype` is that of the gradient, which
// of a resource is the variable's.
Output zero_gradient(Output value, DType dtype);
// The sum over the paths. REQUIRES: every part holds a gradient.
Gradient sum_of(const std::vector<Gradient>& parts);

// Gradients of resources are those of the variables behind them; variants carry lists of tensors.
inline bool carries_gradient(DType dtype) {
  return is_differentiable(dtype) || dtype == DType::kResource || dtype == DType::kVariant;
}

}  // namespace tutti::internal

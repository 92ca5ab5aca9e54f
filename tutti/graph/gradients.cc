#include "tutti/graph/gradients.h"

#include <utility>

#include "tutti/graph/internal/gradient_nodes.h"
#include "tutti/graph/internal/graph_savepoint.h"
#include "tutti/graph/internal/reverse_accumulation.h"

namespace tutti {

using internal::carries_gradient;
using internal::filled_like;
using internal::make_const;
using internal::make_node;

namespace {

// dense_shape[0]
Output first_element(Output vector) {
  Graph& graph = vector.graph();
  auto position = [&](std::int32_t i) { return make_const(graph, Tensor::vector<std::int32_t>({i})); };
  return make_node(graph, "StridedSlice", {vector, position(0), position(1), position(1)}, {{"shrink_axis_mask", 1}});
}

void check_graph(const Graph& graph, const std::vector<Output>& values, std::string_view what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) throw_error(invalid_argument("gradients: ", what, "[", i, "] is empty"));
    if (&values[i].graph() != &graph) {
      throw_error(invalid_argument("gradients: ", what, "[", i, "] \"", printable(values[i].name()),
                                   "\" is of another graph than ys[0]"));
    }
  }
}

Output given_or_ones(Output y, Output given) {
  if (!given) {
    if (is_differentiable(y.dtype())) return filled_like(y, 1);
    throw_error(invalid_argument("gradients: y \"", printable(y.name()), "\" of type ", dtype_name(y.dtype()),
                                 " is not differentiable"));
  }
  if (&given.graph() != &y.graph()) {
    throw_error(
        invalid_argument("gradients: the gradient given for \"", printable(y.name()), "\" is of another graph"));
  }
  if (given.dtype() != y.dtype() || !carries_gradient(y.dtype()) || !given.shape().compatible_with(y.shape())) {
    throw_error(invalid_argument("gradients: y \"", printable(y.name()), "\" is ", dtype_name(y.dtype()), " ",
                                 y.shape(), ", its given gradient ", dtype_name(given.dtype()), " ", given.shape()));
  }
  return given;
}

}  // namespace

Output Gradient::dense() const {
  if (!slices_) return dense_;
  Graph& graph = slices_->values.graph();
  if (!slices_->dense_shape) {
    throw_error(invalid_argument("gradients: the slices \"", printable(slices_->values.name()),
                                 "\" have no dense shape and cannot become one tensor"));
  }
  return make_node(graph, "UnsortedSegmentSum",
                   {slices_->values, slices_->indices, first_element(slices_->dense_shape)});
}

GradContext::GradContext(Node& node, std::span<const Gradient> output_grads)
    : node_(node), output_grads_(output_grads), dense_grads_(output_grads.size()), input_grads_(node.inputs().size()) {}

Output GradContext::grad(int i) {
  Output& dense = dense_grads_[i];
  if (!dense) dense = output_grads_[i] ? output_grads_[i].dense() : filled_like(node_.output(i), 0);
  return dense;
}

const std::map<std::string, GradFn>& GradContext::overrides() const {
  static const std::map<std::string, GradFn> none;
  return overrides_ == nullptr ? none : *overrides_;
}

std::vector<Gradient> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const GradientOptions& options) {
  if (ys.empty()) throw_error(invalid_argument("gradients: there are no ys"));
  if (!options.grad_ys.empty() && options.grad_ys.size() != ys.size()) {
    throw_error(invalid_argument("gradients: ", ys.size(), " ys but ", options.grad_ys.size(), " grad_ys"));
  }
  if (!ys[0]) throw_error(invalid_argument("gradients: ys[0] is empty"));
  Graph& graph = ys[0].graph();
  check_graph(graph, ys, "ys");
  check_graph(graph, xs, "xs");
  check_graph(graph, options.stop_gradients, "stop_gradients");

  internal::GraphSavepoint savepoint(graph);
  ScopeGuard scope = graph.name_scope("gradients");
  std::vector<Output> grad_ys;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    grad_ys.push_back(given_or_ones(ys[i], options.grad_ys.empty() ? Output() : options.grad_ys[i]));
  }
  internal::GradientCall call(graph, options, savepoint);
  internal::ReverseAccumulation reverse(call, xs);
  reverse.run(ys, grad_ys);
  std::vector<Gradient> result;
  for (Output x : xs) result.push_back(reverse.gradient_of(x));
  savepoint.keep();
  return result;
}

}  // namespace tutti

// A function's body with its gradient beside it in one graph, to be cut into a forward and a backward function.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/gradients.h"
#include "tutti/graph/graph.h"

namespace tutti::internal {

using GradientOverrides = std::map<std::string, GradFn>;

// How it is used:
//  1. Made from a function of the library: a fresh copy of the body in which gradients() has run.
//  2. The user may add nodes that read the body (zeros for missing gradients), and makes rows dense where it cannot
//     pass them on.
//  3. `split` tells forward from backward nodes and finds what crosses between them.
//  4. The user adds plumbing around that and takes `extract`s of the graph as new functions.
//
// Everything throws Error. A function that calls itself, directly or through others, is refused.
class DifferentiatedBody {
 public:
  // `has_grad`: by result, whether a gradient will be given. `wanted`: by argument, whether its gradient is needed.
  // Of `overrides`, those by op hold here.
  DifferentiatedBody(Graph& outer, const FunctionRef& function, const std::vector<bool>& has_grad,
                     const std::vector<bool>& wanted, const GradientOverrides& overrides);

  Graph& graph() { return *body_.graph; }
  const FunctionRef& function() const { return function_; }
  int num_args() const { return static_cast<int>(body_.args.size()); }
  int num_results() const { return static_cast<int>(body_.retvals.size()); }
  Output arg(int i) const { return body_.args[i]->output(); }
  Output result(int i) const { return body_.retvals[i]->input(0); }
  // The argument that stands for the gradient of result i; null where there is none.
  Output result_grad(int i) const { return result_grads_[i]; }
  // The gradient of argument i; null where there is none, or where it came as rows that were not made dense.
  Output arg_grad(int i) const { return arg_grads_[i]; }
  // The gradient of argument i where it came as rows.
  const std::optional<IndexedSlices>& arg_rows(int i) const { return arg_rows_[i]; }
  void make_dense(int i);
  // Makes the gradient of argument i zero. `dtype`: its element type, which a resource does not tell.
  void set_zero_grad(int i, DType dtype);

  // `free_args`: by argument, whether the backward function can get it without help of the forward one.
  void split(const std::vector<bool>& free_args);
  // After split: forward values, apart from constants and free arguments, that the backward part reads.
  const std::vector<Output>& captures() const { return captures_; }
  // After split: the free arguments that the backward part reads, in rising order.
  const std::vector<int>& captured_args() const { return captured_args_; }
  // Makes the backward part read `replacement` instead of a capture.
  void replace_capture(Output capture, Output replacement);

  // A new argument of the graph, for plumbing.
  Output add_arg(DType dtype, const PartialShape& shape = PartialShape());
  // Puts a function with these arguments and results into the library and returns its name. The forward
  // function also runs what the original runs for its effects.
  FunctionRef extract_forward(const std::vector<Output>& args, const std::vector<Output>& results);
  FunctionRef extract_backward(const std::vector<Output>& args, const std::vector<Output>& results);

 private:
  void add_gradients(const std::vector<bool>& has_grad, const std::vector<bool>& wanted,
                     const GradientOverrides& overrides);
  void refuse_v1_gradients();
  void mark_forward();
  void mark_shapes_forward(const std::vector<bool>& free_args);
  bool is_free(Output value, const std::vector<bool>& free_args) const;
  void note_use(Output value, const std::vector<bool>& free_args);
  void cut_loose(Node& node);
  int arg_index(Output value) const;
  FunctionRef extract(const std::string& suffix, const std::vector<Output>& args, const std::vector<Output>& results,
                      const std::vector<Node*>& targets);

  Graph& outer_;
  FunctionRef function_;
  FunctionBody body_;
  int first_new_id_ = 0;  // nodes from here on came with the gradient
  std::vector<Output> result_grads_;
  std::vector<Output> arg_grads_;
  std::vector<std::optional<IndexedSlices>> arg_rows_;
  std::vector<bool> is_forward_;  // by node id
  std::vector<Node*> backward_;
  std::vector<Output> captures_;
  std::vector<int> captured_args_;
};

// For each result of the function, whether gradients can flow from it to each argument: a superset of what is so.
std::vector<std::vector<bool>> gradient_paths(const FunctionBody& body, const GradientOverrides& overrides);

// A fresh copy of a function's body.
FunctionBody instantiate_body(Graph& outer, const FunctionRef& function);

// Zeros shaped like `value`; of a resource, like the variable behind it.
Output zeros_like(Output value, DType dtype);

}  // namespace tutti::internal

// Symbolic differentiation: gradients as new nodes of the same graph.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// A gradient of a table of which few rows were read: row indices[i] has gradient values[i]; rows may repeat.
struct IndexedSlices {
  Output values;
  Output indices;
  Output dense_shape;
};

// A gradient: none (not connected), dense, or rows.
class Gradient {
 public:
  Gradient() = default;
  Gradient(Output dense) : dense_(dense) {}            // NOLINT: implicit
  Gradient(IndexedSlices slices) : slices_(slices) {}  // NOLINT: implicit

  explicit operator bool() const { return dense_ || slices_; }
  bool is_sparse() const { return slices_.has_value(); }
  // REQUIRES: is_sparse()
  const IndexedSlices& slices() const { return *slices_; }
  // As one tensor; rows are summed by UnsortedSegmentSum. Null Output when there is none.
  Output dense() const;

 private:
  Output dense_;
  std::optional<IndexedSlices> slices_;
};

// One node being differentiated: what a gradient function sees and sets.
class GradContext {
 public:
  GradContext(Node& node, std::span<const Gradient> output_grads);

  Node& node() { return node_; }
  Graph& graph() { return node_.graph(); }
  Output input(int i) { return node_.input(i); }
  Output output(int i) { return node_.output(i); }
  int num_inputs() const { return static_cast<int>(node_.inputs().size()); }
  // The gradient with respect to output i, dense; zeros (made on the spot) when nothing flows there.
  Output grad(int i = 0);
  bool has_grad(int i) const { return static_cast<bool>(output_grads_[i]); }
  const Gradient& raw_grad(int i) const { return output_grads_[i]; }
  template <typename T>
  const T& attr(std::string_view name) const {
    return node_.attr<T>(name);
  }

  // Whether input i's gradient is asked for; setting others is allowed and dropped.
  bool needs(int i) const { return needed_.empty() || needed_[i]; }
  void set(int i, Gradient gradient) { input_grads_[i] = std::move(gradient); }

  // The custom gradients of this call of gradients(), for gradient functions that call it again, on the bodies
  // of functions.
  const std::map<std::string, GradFn>& overrides() const;

  std::vector<Gradient> take_input_grads() { return std::move(input_grads_); }
  void set_needed(std::vector<bool> needed) { needed_ = std::move(needed); }
  void set_overrides(const std::map<std::string, GradFn>& overrides) { overrides_ = &overrides; }

 private:
  Node& node_;
  std::span<const Gradient> output_grads_;
  std::vector<Output> dense_grads_;  // of those asked for so far
  std::vector<Gradient> input_grads_;
  std::vector<bool> needed_;
  const std::map<std::string, GradFn>* overrides_ = nullptr;
};

struct GradientOptions {
  // Gradients with respect to ys; ones where left out or null.
  std::vector<Output> grad_ys;
  // Values that count as constants.
  std::vector<Output> stop_gradients;
  // Differentiates nodes of this name by this function instead of their op's own (custom gradients);
  // key: node name, or op name (or the value of an attribute `_gradient_op_type`) prefixed with "op:". Those by op
  // also hold inside functions.
  std::map<std::string, GradFn> overrides;
};

// d(sum of ys)/dx for each x, as new nodes under the name scope "gradients". An x that no y depends on gets
// an empty Gradient. Throws Error, and leaves the graph as it was: an op on the way without gradient, a y that is not
// differentiable.
//
// v1 control flow (Switch, Merge, Enter, Exit, NextIteration) may be on the way where it is as TensorFlow's clients
// write it, and not inside of a function. Where a y is in a branch that a step does not take, its gradients are zero,
// and those of xs in that branch have no value. Where a y or an x is inside of a loop, no v1 control flow may be
// between them: the gradient is that within one iteration. A forward loop is added to: it keeps, in lists, what the
// gradients need of each iteration. On the way through v1 control flow rows become dense.
std::vector<Gradient> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const GradientOptions& options = {});

}  // namespace tutti

// What a shape rule sees of a node, and the rules that many ops share.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tutti/core/shape.h"
#include "tutti/core/tensor.h"
#include "tutti/graph/graph.h"

namespace tutti {

// One application of a rule to a node. Output shapes start out unknown.
class ShapeContext {
 public:
  explicit ShapeContext(const Node& node);

  const Node& node() const { return node_; }
  int num_inputs() const { return static_cast<int>(node_.inputs().size()); }
  int num_outputs() const { return node_.num_outputs(); }
  const PartialShape& input(int i) const;
  // The value of input i when it is known before the run (a Const, a Shape of something known...).
  std::optional<Tensor> constant(int i) const;
  // Input i read as a shape: a vector of integers; single dimensions may be open. Unknown when nothing is known.
  PartialShape input_as_shape(int i) const;
  // Input i of a resource: shape of the variable behind it (from its VarHandleOp or argument), or unknown.
  PartialShape resource_shape(int i) const;
  DType resource_dtype(int i) const;

  template <typename T>
  const T& attr(std::string_view name) const {
    return node_.attr<T>(name);
  }

  void set_output(int i, PartialShape shape) { outputs_[i] = std::move(shape); }
  std::vector<PartialShape> take_outputs() { return std::move(outputs_); }

  // Checks that return what is then known, or an error giving the shape. `what` names the input.
  Result<PartialShape> with_rank(int i, int rank) const;
  Result<PartialShape> with_rank_at_least(int i, int rank) const;
  // Puts a negative axis right; an error when out of [-rank, rank).
  static Result<int> normalise_axis(std::int64_t axis, int rank);

 private:
  const Node& node_;
  std::vector<PartialShape> outputs_;
};

// Rules by name, for op rows.
namespace shape {
Status unchanged(ShapeContext& c);         // output i has the shape of input i (output 0 where inputs run out)
Status scalar(ShapeContext& c);            // every output is a scalar
Status broadcast(ShapeContext& c);         // output 0 = inputs 0 and 1 broadcast
Status all_same(ShapeContext& c);          // all inputs agree; every output has that shape
Status none(ShapeContext& c);              // no outputs, or nothing known of them
Status from_attr(ShapeContext& c);         // output 0 has attribute "shape"
Status from_shape_input(ShapeContext& c);  // output 0 has the shape that input 0's value gives
Status reduction(ShapeContext& c);         // input 0 reduced over the axes in input 1, attribute keep_dims
}  // namespace shape

}  // namespace tutti

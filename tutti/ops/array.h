// Builders of constants, placeholders and of ops that move elements. They throw Error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// A list of integers, such as a shape or axes: known now, or computed in the graph.
class Ints {
 public:
  Ints(std::initializer_list<std::int64_t> values) : values_(values) {}
  Ints(std::vector<std::int64_t> values) : values_(std::move(values)) {}           // NOLINT: implicit
  Ints(const Shape& shape) : values_(shape.dims().begin(), shape.dims().end()) {}  // NOLINT: implicit
  Ints(Output value) : output_(value) {}                                           // NOLINT: implicit

  // As a value of `graph`: a constant of int32 (int64 where it must be), or the output given.
  Output in(Graph& graph) const;

 private:
  std::vector<std::int64_t> values_;
  Output output_;
};

// --- Sources. ---
Output constant(Graph& graph, Tensor value, const std::string& name = "");
// A scalar of any number type. kInvalidArgument for other types.
Tensor scalar_tensor(DType dtype, double value);
Tensor scalar_tensor(DType dtype, std::int64_t value);
template <typename T>
requires std::is_arithmetic_v<T> Output constant(Graph& graph, T value, DType dtype, const std::string& name = "") {
  if constexpr (std::is_integral_v<T>) {
    return constant(graph, scalar_tensor(dtype, static_cast<std::int64_t>(value)), name);
  } else {
    return constant(graph, scalar_tensor(dtype, static_cast<double>(value)), name);
  }
}
Output zeros(Graph& graph, DType dtype, const Shape& shape, const std::string& name = "");
Output ones(Graph& graph, DType dtype, const Shape& shape, const std::string& name = "");
Output fill(const Ints& dims, Output value, const std::string& name = "");
Output placeholder(Graph& graph, DType dtype, const PartialShape& shape = {}, const std::string& name = "");
Output placeholder_with_default(Output value, const PartialShape& shape, const std::string& name = "");
// start, start + delta, ... before limit; three scalars of one type.
Output range(Output start, Output limit, Output delta, const std::string& name = "");
Output range(Graph& graph, std::int64_t start, std::int64_t limit, std::int64_t delta = 1,
             const std::string& name = "");

// --- The same values. ---
Output identity(Output x, const std::string& name = "");
Output stop_gradient(Output x, const std::string& name = "");
// Fails the step with `message` when x has a NaN or an infinity.
Output check_numerics(Output x, const std::string& message, const std::string& name = "");
Output zeros_like(Output x, const std::string& name = "");
Output ones_like(Output x, const std::string& name = "");

// --- Shapes. (shape_of is TensorFlow's `shape`, a name that shape rules have here.) ---
Output shape_of(Output x, DType out_type = DType::kInt32, const std::string& name = "");
Output size(Output x, DType out_type = DType::kInt32, const std::string& name = "");
Output rank(Output x, const std::string& name = "");
// One dimension may be -1: what the others leave.
Output reshape(Output x, const Ints& shape, const std::string& name = "");
Output expand_dims(Output x, std::int64_t axis, const std::string& name = "");
// Drops the dimensions in `axes`, all of size 1; without axes, every dimension of size 1.
Output squeeze(Output x, const std::vector<std::int64_t>& axes = {}, const std::string& name = "");
Output broadcast_to(Output x, const Ints& shape, const std::string& name = "");

// --- Moving elements. ---
// Dimension i of the result is dimension perm[i] of x; without perm, in reverse order.
Output transpose(Output x, const std::optional<Ints>& perm = {}, const std::string& name = "");
Output concat(const std::vector<Output>& values, std::int64_t axis, const std::string& name = "");
Output stack(const std::vector<Output>& values, std::int64_t axis = 0, const std::string& name = "");
// REQUIRES: the dimension is known, or `count` is given.
std::vector<Output> unstack(Output x, std::int64_t axis = 0, std::optional<std::int64_t> count = {},
                            const std::string& name = "");
std::vector<Output> split(Output x, int parts, std::int64_t axis = 0, const std::string& name = "");
std::vector<Output> split(Output x, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0,
                          const std::string& name = "");
// A size of -1: to the end.
Output slice(Output x, const Ints& begin, const Ints& size, const std::string& name = "");

struct StridedSliceOptions {
  std::int64_t begin_mask = 0;
  std::int64_t end_mask = 0;
  std::int64_t ellipsis_mask = 0;
  std::int64_t new_axis_mask = 0;
  std::int64_t shrink_axis_mask = 0;
};
Output strided_slice(Output x, const Ints& begin, const Ints& end, const Ints& strides,
                     const StridedSliceOptions& options = {}, const std::string& name = "");
Output tile(Output x, const Ints& multiples, const std::string& name = "");
// paddings: one row of before and after a dimension.
Output pad(Output x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings, const std::string& name = "");
Output reverse(Output x, const Ints& axes, const std::string& name = "");
Output gather(Output params, Output indices, std::int64_t axis = 0, const std::string& name = "");
Output gather_nd(Output params, Output indices, const std::string& name = "");
Output scatter_nd(Output indices, Output updates, const Ints& shape, const std::string& name = "");
Output one_hot(Output indices, std::int64_t depth, DType dtype = DType::kFloat, std::int64_t axis = -1,
               const std::string& name = "");
Output unsorted_segment_sum(Output data, Output segment_ids, Output num_segments, const std::string& name = "");

// --- Control. ---
Node* no_op(Graph& graph, const std::string& name = "");
// A node that runs when all of `nodes` have run. On their device, where they have one in common.
Node* group(Graph& graph, const std::vector<Node*>& nodes, const std::string& name = "");

}  // namespace tutti

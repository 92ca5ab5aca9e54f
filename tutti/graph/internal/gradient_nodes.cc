#include "tutti/graph/internal/gradient_nodes.h"

#include <algorithm>
#include <utility>

namespace tutti::internal {

Output make_node(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs) {
  NodeSpec spec{.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
  return graph.add_node(std::move(spec)).value_or_throw()->output();
}

Output make_const(Graph& graph, Tensor value) {
  const DType dtype = value.dtype();
  return make_node(graph, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}});
}

namespace {

// Known shapes up to this many elements become constants; larger ones are filled when the step runs.
constexpr std::int64_t kMaxConstElements = 256;

// The scalar 0 or 1 of any number type; Cast reaches those without arithmetic here.
Output make_scalar(Graph& graph, DType dtype, int value) {
  switch (dtype) {
    case DType::kFloat:
      return make_const(graph, Tensor::scalar(static_cast<float>(value)));
    case DType::kDouble:
      return make_const(graph, Tensor::scalar(static_cast<double>(value)));
    case DType::kHalf:
      return make_const(graph, Tensor::scalar(Half(static_cast<float>(value))));
    case DType::kBfloat16:
      return make_const(graph, Tensor::scalar(Bfloat16(static_cast<float>(value))));
    case DType::kComplex64:
      return make_const(graph, Tensor::scalar(std::complex<float>(static_cast<float>(value))));
    case DType::kComplex128:
      return make_const(graph, Tensor::scalar(std::complex<double>(value)));
    default:
      return make_node(graph, "Cast", {make_const(graph, Tensor::scalar(static_cast<std::int32_t>(value)))},
                       {{"DstT", dtype}});
  }
}

Output make_vector(Graph& graph, std::span<const std::int64_t> values) {
  return make_const(graph, Tensor::vector<std::int64_t>(values));
}

Gradient concat_slices(const std::vector<Gradient>& parts) {
  Graph& graph = parts[0].slices().values.graph();
  std::vector<Output> values;
  std::vector<Output> indices;
  for (const Gradient& part : parts) {
    values.push_back(part.slices().values);
    indices.push_back(part.slices().indices);
  }
  Output axis = make_const(graph, Tensor::scalar(std::int32_t{0}));
  values.push_back(axis);
  indices.push_back(axis);
  return IndexedSlices{make_node(graph, "ConcatV2", values), make_node(graph, "ConcatV2", indices),
                       parts[0].slices().dense_shape};
}

bool all_slices_alike(const std::vector<Gradient>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Gradient& part) {
    return part.is_sparse() && parts[0].is_sparse() &&
           part.slices().indices.dtype() == parts[0].slices().indices.dtype();
  });
}

}  // namespace

Output filled_like(Output like, int value) {
  Graph& graph = like.graph();
  const std::optional<Shape> shape = like.shape().as_shape();
  if (!shape || !is_differentiable(like.dtype()))
    return make_node(graph, value == 0 ? "ZerosLike" : "OnesLike", {like});
  if (value == 0 && shape->num_elements() <= kMaxConstElements) {
    return make_const(graph, Tensor(like.dtype(), *shape));
  }
  Output scalar = make_scalar(graph, like.dtype(), value);
  if (shape->rank() == 0) return scalar;
  return make_node(graph, "Fill", {make_vector(graph, shape->dims()), scalar});
}

Output zero_gradient(Output value, DType dtype) {
  Graph& graph = value.graph();
  const bool is_resource = value.dtype() == DType::kResource;
  if (value.dtype() == DType::kVariant || (!is_resource && value.shape().fully_known())) return filled_like(value, 0);
  Output shape = make_node(graph, is_resource ? "VariableShape" : "Shape", {value});
  return make_node(graph, "Fill", {shape, make_scalar(graph, dtype, 0)});
}

Gradient sum_of(const std::vector<Gradient>& parts) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (all_slices_alike(parts)) return concat_slices(parts);
  std::vector<Output> dense;
  for (const Gradient& part : parts) dense.push_back(part.dense());
  return make_node(dense[0].graph(), "AddN", dense);
}

}  // namespace tutti::internal

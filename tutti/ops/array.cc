#include "tutti/ops/array.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "tutti/ops/builders.h"

namespace tutti {

namespace {

// Constants up to this many elements are written out in the graph; larger ones are filled when the step runs.
constexpr std::int64_t kMaxConstElements = 1000;

bool fits_int32(const std::vector<std::int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) {
    return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
  });
}

Output int32_scalar(Graph& graph, std::int64_t value) { return constant(graph, value, DType::kInt32); }

std::vector<Output> outputs_of(Node* node) {
  std::vector<Output> outputs;
  for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
  return outputs;
}

Graph& graph_of(const std::vector<Output>& values, const char* op) {
  if (values.empty() || !values[0]) throw_error(invalid_argument(op, ": there are no values"));
  return values[0].graph();
}

Graph& graph_of(Output value, const char* op) {
  if (!value) throw_error(invalid_argument(op, ": the input is empty"));
  return value.graph();
}

// Scalars of the types without arithmetic here go through float.
template <typename V>
Tensor make_scalar(DType dtype, V value) {
  switch (dtype) {
    case DType::kFloat:
      return Tensor::scalar(static_cast<float>(value));
    case DType::kDouble:
      return Tensor::scalar(static_cast<double>(value));
    case DType::kInt8:
      return Tensor::scalar(static_cast<std::int8_t>(value));
    case DType::kInt16:
      return Tensor::scalar(static_cast<std::int16_t>(value));
    case DType::kInt32:
      return Tensor::scalar(static_cast<std::int32_t>(value));
    case DType::kInt64:
      return Tensor::scalar(static_cast<std::int64_t>(value));
    case DType::kUint8:
      return Tensor::scalar(static_cast<std::uint8_t>(value));
    case DType::kUint16:
      return Tensor::scalar(static_cast<std::uint16_t>(value));
    case DType::kUint32:
      return Tensor::scalar(static_cast<std::uint32_t>(value));
    case DType::kUint64:
      return Tensor::scalar(static_cast<std::uint64_t>(value));
    case DType::kBool:
      return Tensor::scalar(value != V{});
    case DType::kHalf:
      return Tensor::scalar(Half(static_cast<float>(value)));
    case DType::kBfloat16:
      return Tensor::scalar(Bfloat16(static_cast<float>(value)));
    case DType::kComplex64:
      return Tensor::scalar(std::complex<float>(static_cast<float>(value)));
    case DType::kComplex128:
      return Tensor::scalar(std::complex<double>(static_cast<double>(value)));
    default:
      throw_error(invalid_argument("a number cannot be made a ", dtype_name(dtype)));
  }
}

Output filled(Graph& graph, DType dtype, const Shape& shape, std::int64_t value, const std::string& name) {
  if (value == 0 && shape.num_elements() <= kMaxConstElements) return constant(graph, Tensor(dtype, shape), name);
  if (shape.rank() == 0) return constant(graph, scalar_tensor(dtype, value), name);
  return fill(shape, constant(graph, scalar_tensor(dtype, value)), name);
}

}  // namespace

Output Ints::in(Graph& graph) const {
  if (output_) return output_;
  if (!fits_int32(values_)) return constant(graph, Tensor::vector<std::int64_t>(values_));
  const std::vector<std::int32_t> narrow(values_.begin(), values_.end());
  return constant(graph, Tensor::vector<std::int32_t>(narrow));
}

Output constant(Graph& graph, Tensor value, const std::string& name) {
  const DType dtype = value.dtype();
  if (dtype == DType::kInvalid) throw_error(invalid_argument("Const \"", printable(name), "\": the tensor is empty"));
  return add_op(graph, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}}, name)->output();
}

Tensor scalar_tensor(DType dtype, double value) { return make_scalar(dtype, value); }
Tensor scalar_tensor(DType dtype, std::int64_t value) { return make_scalar(dtype, value); }

Output zeros(Graph& graph, DType dtype, const Shape& shape, const std::string& name) {
  return filled(graph, dtype, shape, 0, name);
}

Output ones(Graph& graph, DType dtype, const Shape& shape, const std::string& name) {
  return filled(graph, dtype, shape, 1, name);
}

Output fill(const Ints& dims, Output value, const std::string& name) {
  Graph& graph = graph_of(value, "Fill");
  return op1("Fill", {dims.in(graph), value}, {}, name);
}

Output placeholder(Graph& graph, DType dtype, const PartialShape& shape, const std::string& name) {
  return add_op(graph, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name)->output();
}

Output placeholder_with_default(Output value, const PartialShape& shape, const std::string& name) {
  return op1("PlaceholderWithDefault", {value}, {{"shape", shape}}, name);
}

Output range(Output start, Output limit, Output delta, const std::string& name) {
  return op1("Range", {start, limit, delta}, {}, name);
}

Output range(Graph& graph, std::int64_t start, std::int64_t limit, std::int64_t delta, const std::string& name) {
  const DType dtype = fits_int32({start, limit, delta}) ? DType::kInt32 : DType::kInt64;
  return range(constant(graph, start, dtype), constant(graph, limit, dtype), constant(graph, delta, dtype), name);
}

Output identity(Output x, const std::string& name) { return op1("Identity", {x}, {}, name); }
Output stop_gradient(Output x, const std::string& name) { return op1("StopGradient", {x}, {}, name); }
Output check_numerics(Output x, const std::string& message, const std::string& name) {
  return op1("CheckNumerics", {x}, {{"message", message}}, name);
}
Output zeros_like(Output x, const std::string& name) { return op1("ZerosLike", {x}, {}, name); }
Output ones_like(Output x, const std::string& name) { return op1("OnesLike", {x}, {}, name); }

Output shape_of(Output x, DType out_type, const std::string& name) {
  return op1("Shape", {x}, {{"out_type", out_type}}, name);
}
Output size(Output x, DType out_type, const std::string& name) {
  return op1("Size", {x}, {{"out_type", out_type}}, name);
}
Output rank(Output x, const std::string& name) { return op1("Rank", {x}, {}, name); }

Output reshape(Output x, const Ints& shape, const std::string& name) {
  return op1("Reshape", {x, shape.in(graph_of(x, "Reshape"))}, {}, name);
}

Output expand_dims(Output x, std::int64_t axis, const std::string& name) {
  return op1("ExpandDims", {x, int32_scalar(graph_of(x, "ExpandDims"), axis)}, {}, name);
}

Output squeeze(Output x, const std::vector<std::int64_t>& axes, const std::string& name) {
  return op1("Squeeze", {x}, {{"squeeze_dims", axes}}, name);
}

Output broadcast_to(Output x, const Ints& shape, const std::string& name) {
  return op1("BroadcastTo", {x, shape.in(graph_of(x, "BroadcastTo"))}, {}, name);
}

Output transpose(Output x, const std::optional<Ints>& perm, const std::string& name) {
  Graph& graph = graph_of(x, "Transpose");
  if (perm) return op1("Transpose", {x, perm->in(graph)}, {}, name);
  if (x.shape().has_rank()) {
    std::vector<std::int64_t> order;
    for (int i = x.shape().rank() - 1; i >= 0; --i) order.push_back(i);
    return op1("Transpose", {x, Ints(order).in(graph)}, {}, name);
  }
  Output last = op1("Sub", {rank(x), int32_scalar(graph, 1)});
  Output order = range(last, int32_scalar(graph, -1), int32_scalar(graph, -1));
  return op1("Transpose", {x, order}, {}, name);
}

Output concat(const std::vector<Output>& values, std::int64_t axis, const std::string& name) {
  Graph& graph = graph_of(values, "ConcatV2");
  if (values.size() == 1) return identity(values[0], name);
  std::vector<Output> inputs = values;
  inputs.push_back(int32_scalar(graph, axis));
  return op1("ConcatV2", std::move(inputs), {}, name);
}

Output stack(const std::vector<Output>& values, std::int64_t axis, const std::string& name) {
  graph_of(values, "Pack");
  return op1("Pack", values, {{"axis", axis}}, name);
}

std::vector<Output> unstack(Output x, std::int64_t axis, std::optional<std::int64_t> count, const std::string& name) {
  Graph& graph = graph_of(x, "Unpack");
  if (!count && x.shape().has_rank()) {
    const int rank = x.shape().rank();
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) throw_error(invalid_argument("Unpack: axis ", axis, " is out of range of ", x.shape()));
    if (x.shape().dim(static_cast<int>(at)) != kUnknownDim) count = x.shape().dim(static_cast<int>(at));
  }
  if (!count)
    throw_error(invalid_argument("Unpack: how many outputs? Dimension ", axis, " of ", x.shape(), " is open"));
  return outputs_of(add_op(graph, "Unpack", {x}, {{"num", *count}, {"axis", axis}}, name));
}

std::vector<Output> split(Output x, int parts, std::int64_t axis, const std::string& name) {
  Graph& graph = graph_of(x, "Split");
  return outputs_of(add_op(graph, "Split", {int32_scalar(graph, axis), x}, {{"num_split", parts}}, name));
}

std::vector<Output> split(Output x, const std::vector<std::int64_t>& sizes, std::int64_t axis,
                          const std::string& name) {
  Graph& graph = graph_of(x, "SplitV");
  const auto parts = static_cast<std::int64_t>(sizes.size());
  return outputs_of(add_op(graph, "SplitV",
                           {x, constant(graph, Tensor::vector<std::int64_t>(sizes)), int32_scalar(graph, axis)},
                           {{"num_split", parts}}, name));
}

Output slice(Output x, const Ints& begin, const Ints& size, const std::string& name) {
  Graph& graph = graph_of(x, "Slice");
  return op1("Slice", {x, begin.in(graph), size.in(graph)}, {}, name);
}

Output strided_slice(Output x, const Ints& begin, const Ints& end, const Ints& strides,
                     const StridedSliceOptions& options, const std::string& name) {
  Graph& graph = graph_of(x, "StridedSlice");
  return op1("StridedSlice", {x, begin.in(graph), end.in(graph), strides.in(graph)},
             {{"begin_mask", options.begin_mask},
              {"end_mask", options.end_mask},
              {"ellipsis_mask", options.ellipsis_mask},
              {"new_axis_mask", options.new_axis_mask},
              {"shrink_axis_mask", options.shrink_axis_mask}},
             name);
}

Output tile(Output x, const Ints& multiples, const std::string& name) {
  return op1("Tile", {x, multiples.in(graph_of(x, "Tile"))}, {}, name);
}

Output pad(Output x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings, const std::string& name) {
  Graph& graph = graph_of(x, "Pad");
  Tensor matrix(DType::kInt64, Shape{static_cast<std::int64_t>(paddings.size()), 2});
  std::int64_t* to = matrix.data<std::int64_t>();
  for (const auto& [before, after] : paddings) {
    *to++ = before;
    *to++ = after;
  }
  return op1("Pad", {x, constant(graph, std::move(matrix))}, {}, name);
}

Output reverse(Output x, const Ints& axes, const std::string& name) {
  return op1("ReverseV2", {x, axes.in(graph_of(x, "ReverseV2"))}, {}, name);
}

Output gather(Output params, Output indices, std::int64_t axis, const std::string& name) {
  return op1("GatherV2", {params, indices, int32_scalar(graph_of(params, "GatherV2"), axis)}, {}, name);
}

Output gather_nd(Output params, Output indices, const std::string& name) {
  return op1("GatherNd", {params, indices}, {}, name);
}

Output scatter_nd(Output indices, Output updates, const Ints& shape, const std::string& name) {
  Graph& graph = graph_of(indices, "ScatterNd");
  Output dims = shape.in(graph);
  if (dims.dtype() != indices.dtype()) dims = op1("Cast", {dims}, {{"DstT", indices.dtype()}});
  return op1("ScatterNd", {indices, updates, dims}, {}, name);
}

Output one_hot(Output indices, std::int64_t depth, DType dtype, std::int64_t axis, const std::string& name) {
  Graph& graph = graph_of(indices, "OneHot");
  return op1("OneHot",
             {indices, int32_scalar(graph, depth), constant(graph, std::int64_t{1}, dtype),
              constant(graph, std::int64_t{0}, dtype)},
             {{"axis", axis}}, name);
}

Output unsorted_segment_sum(Output data, Output segment_ids, Output num_segments, const std::string& name) {
  return op1("UnsortedSegmentSum", {data, segment_ids, num_segments}, {}, name);
}

Node* no_op(Graph& graph, const std::string& name) { return add_op(graph, "NoOp", {}, {}, name); }

// One node for each device stands for the nodes there, so that a device sends one word and not one for each of them.
Node* group(Graph& graph, const std::vector<Node*>& nodes, const std::string& name) {
  const std::string base = name.empty() ? "group_deps" : name;
  std::vector<std::string> devices;  // in order of appearance
  std::map<std::string, std::vector<Node*>> by_device;
  for (Node* node : nodes) {
    const std::string device = node == nullptr ? "" : node->requested_device();
    if (!by_device.contains(device)) devices.push_back(device);
    by_device[device].push_back(node);
  }
  auto add = [&graph](const std::string& node_name, const std::string& device, std::vector<Node*> before) {
    NodeSpec spec{.op = "NoOp", .name = node_name, .control_inputs = std::move(before), .device = device};
    return graph.add_node(std::move(spec)).value_or_throw();
  };
  if (devices.size() < 2) return add(base, devices.empty() ? "" : devices[0], nodes);
  ScopeGuard scope = graph.name_scope(base);
  std::vector<Node*> parts;
  for (const std::string& device : devices) parts.push_back(add("", device, by_device[device]));
  return add(graph.current_name_scope() + "/", "", parts);
}

}  // namespace tutti

#include "tutti/graph/shape_inference.h"

#include <limits>

namespace tutti {
namespace {

// Looking through nodes for a value stops here; graphs from outside may be any tangle of Packs.
constexpr int kMaxDepth = 16;
constexpr int kMaxVisits = 1024;
constexpr std::int64_t kMaxElements = 1024;
constexpr int kMaxHandleDepth = 64;

const PartialShape& unknown_shape() {
  static const PartialShape shape;
  return shape;
}

// A vector or scalar of integers, each known or not.
struct Integers {
  std::vector<std::optional<std::int64_t>> values;
  bool is_scalar = false;
};

std::optional<std::vector<std::int64_t>> integer_elements(const Tensor& tensor) {
  std::vector<std::int64_t> values;
  if (tensor.dtype() == DType::kInt32) {
    for (std::int32_t value : tensor.flat<std::int32_t>()) values.push_back(value);
  } else if (tensor.dtype() == DType::kInt64) {
    for (std::int64_t value : tensor.flat<std::int64_t>()) values.push_back(value);
  } else {
    return std::nullopt;
  }
  return values;
}

bool fits(std::int64_t value, DType dtype) {
  return dtype == DType::kInt64 ||
         (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max());
}

// What can be said of integer values before a run, looking through the ops that shapes are computed with.
class ValueFinder {
 public:
  std::optional<Integers> find(Output value, int depth = 0) {
    if (!value || depth > kMaxDepth || ++visits_ > kMaxVisits) return std::nullopt;
    const Node& node = *value.node;
    const std::string& op = node.op_name();
    if (op == "Const") return of_const(node);
    if (op == "Shape") return of_shape(node);
    if (op == "Rank" || op == "Size") return of_measure(node, op == "Rank");
    if (op == "Pack") return of_pack(node, depth);
    if (op == "ConcatV2") return of_concat(node, depth);
    // A default may yet be replaced by a feed: its value is not looked at.
    const bool copies = node.op().has(kPassThrough) && !node.op().has(kStateful) && op != "PlaceholderWithDefault";
    if ((copies || op == "Cast") && !node.inputs().empty()) return of_same(node, depth);
    return std::nullopt;
  }

 private:
  static std::optional<Integers> of_const(const Node& node) {
    const AttrValue* attr = node.find_attr("value");
    const Tensor* tensor = attr == nullptr ? nullptr : attr->get<Tensor>();
    if (tensor == nullptr || tensor->rank() > 1 || tensor->num_elements() > kMaxElements) return std::nullopt;
    std::optional<std::vector<std::int64_t>> elements = integer_elements(*tensor);
    if (!elements) return std::nullopt;
    return Integers{{elements->begin(), elements->end()}, tensor->rank() == 0};
  }

  static std::optional<Integers> of_shape(const Node& node) {
    if (node.inputs().empty() || !node.input(0) || !node.input(0).shape().has_rank()) return std::nullopt;
    Integers result;
    for (std::int64_t dim : node.input(0).shape().dims()) {
      result.values.push_back(dim == kUnknownDim ? std::nullopt : std::optional(dim));
    }
    return result;
  }

  static std::optional<Integers> of_measure(const Node& node, bool rank) {
    if (node.inputs().empty() || !node.input(0)) return std::nullopt;
    const PartialShape& shape = node.input(0).shape();
    std::int64_t value = rank ? shape.rank() : shape.num_elements();
    if (value < 0) return std::nullopt;
    return Integers{{value}, true};
  }

  std::optional<Integers> of_same(const Node& node, int depth) {
    if (node.op_name() == "Cast") {
      // Only between integers: a float is not looked at.
      DType from = node.input_types()[0].dtype;
      if (!kIndexTypes.contains(from) || !kIndexTypes.contains(node.output_types()[0].dtype)) return std::nullopt;
    }
    if (node.input(0) && node.input(0).node->output_types()[node.input(0).index].is_ref) return std::nullopt;
    return find(node.input(0), depth + 1);
  }

  std::optional<Integers> of_pack(const Node& node, int depth) {
    Integers result;
    for (const Output& input : node.inputs()) {
      std::optional<Integers> element = find(input, depth + 1);
      if (!element || !element->is_scalar) {
        // A scalar that is not known leaves its place open; a vector would make a matrix.
        if (!input || !input.shape().has_rank() || input.shape().rank() != 0) return std::nullopt;
        element = Integers{{std::nullopt}, true};
      }
      result.values.push_back(element->values[0]);
    }
    return result;
  }

  std::optional<Integers> of_concat(const Node& node, int depth) {
    if (node.inputs().empty()) return std::nullopt;
    Integers result;
    for (const Output& input : node.inputs().first(node.inputs().size() - 1)) {
      std::optional<Integers> part = find(input, depth + 1);
      if (!part && input && input.shape().rank() == 1 && input.shape().dim(0) >= 0 &&
          input.shape().dim(0) <= kMaxElements) {
        part = Integers{std::vector<std::optional<std::int64_t>>(input.shape().dim(0)), false};
      }
      if (!part || part->is_scalar) return std::nullopt;
      result.values.insert(result.values.end(), part->values.begin(), part->values.end());
      if (static_cast<std::int64_t>(result.values.size()) > kMaxElements) return std::nullopt;
    }
    return result;
  }

  int visits_ = 0;
};

std::optional<Tensor> to_tensor(const Integers& integers, DType dtype) {
  if (!kIndexTypes.contains(dtype)) return std::nullopt;
  const auto count = static_cast<std::int64_t>(integers.values.size());
  Tensor tensor(dtype, integers.is_scalar ? Shape{} : Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    if (!integers.values[i] || !fits(*integers.values[i], dtype)) return std::nullopt;
    if (dtype == DType::kInt32) {
      tensor.data<std::int32_t>()[i] = static_cast<std::int32_t>(*integers.values[i]);
    } else {
      tensor.data<std::int64_t>()[i] = *integers.values[i];
    }
  }
  return tensor;
}

// The node at the other end of the copies and loop edges that a resource handle came by.
const Node* handle_source(Output handle) {
  const Node* node = handle.node;
  for (int depth = 0; node != nullptr && depth < kMaxHandleDepth; ++depth) {
    const bool copies = node->op().has(kPassThrough) || node->op().has(kControlFlow);
    if (!copies || node->inputs().empty() || node->input_types()[0].dtype != DType::kResource) return node;
    node = node->input(0).node;
  }
  return nullptr;
}

template <typename T>
const T* find_attr_as(const Node& node, std::string_view name) {
  const AttrValue* attr = node.find_attr(name);
  return attr == nullptr ? nullptr : attr->get<T>();
}

// The handle's own attribute, or an argument's description of what it is given.
template <typename T>
const T* handle_attr(Output handle, std::string_view own, std::string_view described) {
  const Node* source = handle ? handle_source(handle) : nullptr;
  if (source == nullptr) return nullptr;
  if (const auto* list = find_attr_as<std::vector<T>>(*source, described)) {
    return list->empty() ? nullptr : &list->front();
  }
  // A placeholder's attributes describe the handle itself.
  const DType* made = find_attr_as<DType>(*source, "dtype");
  if (!source->inputs().empty() || made == nullptr || *made == DType::kResource) return nullptr;
  return find_attr_as<T>(*source, own);
}

Result<PartialShape> merge_all_inputs(const ShapeContext& c) {
  PartialShape merged;
  for (int i = 0; i < c.num_inputs(); ++i) {
    Result<PartialShape> next = merged.merge(c.input(i));
    if (!next.ok()) {
      return invalid_argument("all inputs must have one shape, input ", i, " has ", c.input(i), ", those before ",
                              merged);
    }
    merged = *std::move(next);
  }
  return merged;
}

// The axes as flags; nothing when they are not known.
Result<std::optional<std::vector<bool>>> reduced_axes(const ShapeContext& c, int rank) {
  std::optional<Tensor> axes = c.constant(1);
  if (!axes) return std::optional<std::vector<bool>>();
  std::optional<std::vector<std::int64_t>> values = integer_elements(*axes);
  if (!values) return std::optional<std::vector<bool>>();
  std::vector<bool> reduced(rank, false);
  for (std::int64_t value : *values) {
    TUTTI_ASSIGN_OR_RETURN(int axis, ShapeContext::normalise_axis(value, rank));
    reduced[axis] = true;
  }
  return std::optional(std::move(reduced));
}

}  // namespace

ShapeContext::ShapeContext(const Node& node) : node_(node), outputs_(node.num_outputs()) {}

const PartialShape& ShapeContext::input(int i) const {
  const Output input = node_.input(i);
  return input ? input.shape() : unknown_shape();
}

std::optional<Tensor> ShapeContext::constant(int i) const {
  const Output input = node_.input(i);
  if (!input) return std::nullopt;
  if (input.node->op_name() == "Const") {
    const Tensor* value = find_attr_as<Tensor>(*input.node, "value");
    return value == nullptr ? std::nullopt : std::optional<Tensor>(*value);
  }
  std::optional<Integers> integers = ValueFinder().find(input);
  if (!integers) return std::nullopt;
  return to_tensor(*integers, input.dtype());
}

PartialShape ShapeContext::input_as_shape(int i) const {
  const Output source = node_.input(i);
  std::optional<Integers> integers = ValueFinder().find(source);
  if (!integers || integers->is_scalar) {
    const PartialShape& own = input(i);
    const bool rank_known = own.rank() == 1 && own.dim(0) >= 0 && own.dim(0) <= kMaxRank;
    return rank_known ? PartialShape::unknown_of_rank(static_cast<int>(own.dim(0))) : PartialShape::unknown();
  }
  std::vector<std::int64_t> dims;
  for (const std::optional<std::int64_t>& value : integers->values) dims.push_back(value.value_or(kUnknownDim));
  Result<PartialShape> shape = PartialShape::create(std::move(dims));
  return shape.ok() ? *std::move(shape) : PartialShape::unknown();
}

PartialShape ShapeContext::resource_shape(int i) const {
  const auto* shape = handle_attr<PartialShape>(node_.input(i), "shape", "_handle_shapes");
  return shape == nullptr ? PartialShape::unknown() : *shape;
}

DType ShapeContext::resource_dtype(int i) const {
  const auto* dtype = handle_attr<DType>(node_.input(i), "dtype", "_handle_dtypes");
  return dtype == nullptr ? DType::kInvalid : *dtype;
}

Result<PartialShape> ShapeContext::with_rank(int i, int rank) const {
  const PartialShape& shape = input(i);
  if (!shape.has_rank()) return PartialShape::unknown_of_rank(rank);
  if (shape.rank() == rank) return shape;
  return invalid_argument("input ", i, " must have rank ", rank, ", got shape ", shape);
}

Result<PartialShape> ShapeContext::with_rank_at_least(int i, int rank) const {
  const PartialShape& shape = input(i);
  if (!shape.has_rank() || shape.rank() >= rank) return shape;
  return invalid_argument("input ", i, " must have at least rank ", rank, ", got shape ", shape);
}

Result<int> ShapeContext::normalise_axis(std::int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return invalid_argument("axis ", axis, " is out of range [", -rank, ", ", rank, ")");
}

namespace shape {

Status unchanged(ShapeContext& c) {
  if (c.num_inputs() == 0) return {};
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i < c.num_inputs() ? i : 0));
  return {};
}

Status scalar(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::scalar());
  return {};
}

Status broadcast(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, broadcast_shapes(c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return {};
}

Status all_same(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, merge_all_inputs(c));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shape);
  return {};
}

Status none(ShapeContext&) { return {}; }

Status from_attr(ShapeContext& c) {
  c.set_output(0, c.attr<PartialShape>("shape"));
  return {};
}

Status from_shape_input(ShapeContext& c) {
  c.set_output(0, c.input_as_shape(0));
  return {};
}

Status reduction(ShapeContext& c) {
  const bool* keep_attr = find_attr_as<bool>(c.node(), "keep_dims");
  const bool keep = keep_attr != nullptr && *keep_attr;
  const PartialShape& in = c.input(0);
  if (!in.has_rank()) return {};
  TUTTI_ASSIGN_OR_RETURN(std::optional<std::vector<bool>> reduced, reduced_axes(c, in.rank()));
  if (!reduced) {
    if (keep) c.set_output(0, PartialShape::unknown_of_rank(in.rank()));
    return {};
  }
  std::vector<std::int64_t> dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (!(*reduced)[i]) {
      dims.push_back(in.dim(i));
    } else if (keep) {
      dims.push_back(1);
    }
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return {};
}

}  // namespace shape
}  // namespace tutti

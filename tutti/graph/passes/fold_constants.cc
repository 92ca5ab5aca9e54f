#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "tutti/graph/internal/output_hash.h"
#include "tutti/graph/internal/purity.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti {
namespace {

const Tensor* constant_value(const Output& output) {
  if (output.node->op_name() != "Const") return nullptr;
  const AttrValue* value = output.node->find_attr("value");
  return value == nullptr ? nullptr : value->get<Tensor>();
}

template <typename T>
Tensor shape_tensor(const PartialShape& shape) {
  std::vector<T> dims;
  for (std::int64_t dim : shape.dims()) dims.push_back(static_cast<T>(dim));
  return Tensor::vector<T>(std::span<const T>(dims));
}

bool fits(std::int64_t value, DType dtype) {
  return dtype == DType::kInt64 || value == static_cast<std::int32_t>(value);
}

std::optional<Tensor> integer_scalar(std::int64_t value, DType dtype) {
  if (value < 0 || !kIndexTypes.contains(dtype) || !fits(value, dtype)) return std::nullopt;
  if (dtype == DType::kInt32) return Tensor::scalar(static_cast<std::int32_t>(value));
  return Tensor::scalar(value);
}

std::optional<Tensor> shape_value(const PartialShape& shape, DType dtype) {
  if (!shape.fully_known() || !kIndexTypes.contains(dtype)) return std::nullopt;
  if (!std::all_of(shape.dims().begin(), shape.dims().end(), [=](std::int64_t dim) { return fits(dim, dtype); })) {
    return std::nullopt;
  }
  return dtype == DType::kInt32 ? shape_tensor<std::int32_t>(shape) : shape_tensor<std::int64_t>(shape);
}

// Output i of a node that reads shapes only, where the shape is known.
std::optional<Tensor> measured(const Node& node, int i) {
  const std::string& op = node.op_name();
  const DType dtype = node.output_types()[i].dtype;
  if (op == "Shape" || op == "ShapeN") return shape_value(node.input(i).shape(), dtype);
  if (op == "Rank") return integer_scalar(node.input(0).shape().rank(), dtype);
  if (op == "Size") return integer_scalar(node.input(0).shape().num_elements(), dtype);
  return std::nullopt;
}

// For each node the nearest nodes that come before it, or the node itself, whose running can be told: they have
// effects, or read what others change. What takes the place of a value waits for these, although it no longer needs it.
class EffectsBefore {
 public:
  // REQUIRES: what the node reads and waits for was added.
  void add(Node& node, bool boundary) {
    if (boundary) return;
    std::vector<Node*> found;
    if (!is_pure(node)) {
      found.push_back(&node);
    } else {
      for (const Output& input : node.inputs()) collect(input.node, &found);
      for (const Node* before : node.control_inputs()) collect(before, &found);
    }
    if (found.size() > kMost) found = {&node};
    if (!found.empty()) effects_[&node] = std::move(found);
  }
  std::span<Node* const> of(const Node* node) const {
    auto it = effects_.find(node);
    return it == effects_.end() ? std::span<Node* const>() : it->second;
  }

 private:
  // Of a node with more than these before it the node itself stays. More are more edges in each step; fewer let more
  // nodes stay that only their shape is wanted of, and nodes that something waits for are not fused.
  static constexpr std::size_t kMost = 16;

  void collect(const Node* before, std::vector<Node*>* found) const {
    for (Node* effect : of(before)) {
      if (found->size() > kMost) return;
      if (std::find(found->begin(), found->end(), effect) == found->end()) found->push_back(effect);
    }
  }

  std::unordered_map<const Node*, std::vector<Node*>> effects_;
};

class Folder {
 public:
  Folder(FunctionBody& body, ConstantEvaluator& evaluator, std::int64_t max_bytes)
      : body_(body), graph_(*body.graph), evaluator_(evaluator), max_bytes_(max_bytes) {}

  Status run() {
    TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.topological_order());
    fixed_.insert(body_.args.begin(), body_.args.end());
    fixed_.insert(body_.retvals.begin(), body_.retvals.end());
    branches_ = std::any_of(order.begin(), order.end(), [](const Node* n) { return n->op().has(kControlFlow); });
    for (Node* node : order) {
      read_folded_inputs(*node);
      if (may_fold(*node)) TUTTI_RETURN_IF_ERROR(fold(*node));
      effects_.add(*node, fixed_.contains(node));
    }
    prune(body_);
    return {};
  }

 private:
  bool may_fold(const Node& node) const {
    if (node.op_name() == "Const" || node.inputs().empty() || node.num_outputs() == 0) return false;
    if (fixed_.contains(&node) || !is_pure(node)) return false;
    return std::all_of(node.output_types().begin(), node.output_types().end(), [](const EdgeType& type) {
      return type.dtype != DType::kResource && type.dtype != DType::kVariant;
    });
  }

  Status fold(Node& node) {
    std::optional<std::vector<Tensor>> values;
    std::vector<Node*> after(node.control_inputs().begin(), node.control_inputs().end());
    if (node.op().has(kMetadataOnly)) values = measure(node, &after);
    if (!values) {
      after.assign(node.control_inputs().begin(), node.control_inputs().end());
      values = evaluate(node, &after);
    }
    if (!values) return {};
    if (node.num_outputs() == 1) return make_constant(node, (*values)[0], std::move(after));
    for (int i = 0; i < node.num_outputs(); ++i) {
      NodeSpec spec = constant_spec(node, (*values)[i], after);
      spec.name = graph_.unique_name(str_cat(node.name(), "/folded_", i));
      TUTTI_ASSIGN_OR_RETURN(Node * constant, graph_.add_exact(std::move(spec)));
      effects_.add(*constant, false);
      folded_[{&node, i}] = constant;
    }
    return {};
  }

  // Nodes of several outputs were replaced by several constants: their readers, which come later, take those.
  void read_folded_inputs(Node& node) {
    if (folded_.empty()) return;
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      if (!node.input(i)) continue;
      auto it = folded_.find(node.input(i));
      if (it != folded_.end()) {
        Status status = graph_.set_input(node, i, it->second->output());
        TUTTI_CHECK(status.ok(), status);
      }
    }
  }

  std::optional<std::vector<Tensor>> measure(const Node& node, std::vector<Node*>* after) const {
    std::vector<Tensor> values;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (i >= static_cast<int>(node.inputs().size()) || !node.input(i)) return std::nullopt;
      std::optional<Tensor> value = measured(node, i);
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    for (const Output& input : node.inputs()) {
      if (!branches_) {
        const auto effects = effects_.of(input.node);
        after->insert(after->end(), effects.begin(), effects.end());
        continue;
      }
      // Of a branch not taken the shape must not be there either. A control edge from a Switch does not
      // tell which branch that is, so such a node stays.
      if (input.node->op().has(kControlFlow)) return std::nullopt;
      after->push_back(input.node);
    }
    return values;
  }

  std::optional<std::vector<Tensor>> evaluate(const Node& node, std::vector<Node*>* after) const {
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs()) {
      const Tensor* value = input ? constant_value(input) : nullptr;
      if (value == nullptr) return std::nullopt;
      inputs.push_back(*value);
      after->insert(after->end(), input.node->control_inputs().begin(), input.node->control_inputs().end());
    }
    if (known_bytes(node) > max_bytes_) return std::nullopt;
    Result<std::vector<Tensor>> values = evaluator_.evaluate(node, inputs);
    if (!values.ok() || !fits_node(node, *values)) return std::nullopt;
    return *std::move(values);
  }

  // Of the outputs whose shape is known.
  static std::int64_t known_bytes(const Node& node) {
    double bytes = 0;  // many large outputs must not overflow
    for (int i = 0; i < node.num_outputs(); ++i) {
      const std::int64_t count = node.output_shape(i).num_elements();
      if (count > 0) bytes += static_cast<double>(count) * element_stride(node.output_types()[i].dtype);
    }
    return static_cast<std::int64_t>(std::min(bytes, 9e18));
  }

  bool fits_node(const Node& node, const std::vector<Tensor>& values) const {
    if (static_cast<int>(values.size()) != node.num_outputs()) return false;
    std::int64_t bytes = 0;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (values[i].dtype() != node.output_types()[i].dtype) return false;
      bytes += static_cast<std::int64_t>(values[i].bytes());
    }
    return bytes <= max_bytes_;
  }

  static NodeSpec constant_spec(const Node& node, const Tensor& value, std::vector<Node*> after) {
    NodeSpec spec{.op = "Const", .control_inputs = std::move(after), .device = node.requested_device()};
    spec.attrs = {{"dtype", value.dtype()}, {"value", value}};
    for (const auto& [name, attr] : node.attrs()) {
      if (name.starts_with('_')) spec.attrs.emplace(name, attr);
    }
    return spec;
  }

  Status make_constant(Node& node, const Tensor& value, std::vector<Node*> after) {
    return graph_.rebuild(node, constant_spec(node, value, std::move(after)));
  }

  FunctionBody& body_;
  Graph& graph_;
  ConstantEvaluator& evaluator_;
  const std::int64_t max_bytes_;
  std::unordered_set<const Node*> fixed_;  // arguments and results
  bool branches_ = false;                  // there may be branches not taken
  EffectsBefore effects_;                  // of the nodes passed so far
  std::unordered_map<Output, Node*, OutputHash> folded_;
};

}  // namespace

Status fold_constants(FunctionBody& body, ConstantEvaluator& evaluator, std::int64_t max_bytes) {
  return Folder(body, evaluator, max_bytes).run();
}

}  // namespace tutti

#include "tutti/graph/gradients.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "tutti/graph/function.h"

namespace tutti {
namespace {

// Known shapes up to this many elements become constants; larger ones are filled when the step runs.
constexpr std::int64_t kMaxConstElements = 256;

Output make(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
  NodeSpec spec{.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
  return graph.add_node(std::move(spec)).value_or_throw()->output();
}

Output make_const(Graph& graph, Tensor value) {
  const DType dtype = value.dtype();
  return make(graph, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}});
}

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
      return make(graph, "Cast", {make_const(graph, Tensor::scalar(static_cast<std::int32_t>(value)))},
                  {{"DstT", dtype}});
  }
}

Output make_vector(Graph& graph, std::span<const std::int64_t> values) {
  return make_const(graph, Tensor::vector<std::int64_t>(values));
}

// A tensor of `value`s shaped like `like`, reading `like` only when its shape is not known here: inside a
// loop's body every value that the gradient reads has to be kept for each iteration.
Output filled_like(Output like, int value) {
  Graph& graph = like.graph();
  const std::optional<Shape> shape = like.shape().as_shape();
  if (!shape || !is_differentiable(like.dtype())) return make(graph, value == 0 ? "ZerosLike" : "OnesLike", {like});
  if (value == 0 && shape->num_elements() <= kMaxConstElements) {
    return make_const(graph, Tensor(like.dtype(), *shape));
  }
  Output scalar = make_scalar(graph, like.dtype(), value);
  if (shape->rank() == 0) return scalar;
  return make(graph, "Fill", {make_vector(graph, shape->dims()), scalar});
}

// dense_shape[0]
Output first_element(Output vector) {
  Graph& graph = vector.graph();
  auto position = [&](std::int32_t i) { return make_const(graph, Tensor::vector<std::int32_t>({i})); };
  return make(graph, "StridedSlice", {vector, position(0), position(1), position(1)}, {{"shrink_axis_mask", 1}});
}

// Gradients of resources are those of the variables behind them; variants carry lists of tensors.
bool carries_gradient(DType dtype) {
  return is_differentiable(dtype) || dtype == DType::kResource || dtype == DType::kVariant;
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
  return IndexedSlices{make(graph, "ConcatV2", values), make(graph, "ConcatV2", indices),
                       parts[0].slices().dense_shape};
}

bool all_slices_alike(const std::vector<Gradient>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Gradient& part) {
    return part.is_sparse() && parts[0].is_sparse() &&
           part.slices().indices.dtype() == parts[0].slices().indices.dtype();
  });
}

// The sum over the paths. REQUIRES: every part holds a gradient.
Gradient sum_of(const std::vector<Gradient>& parts) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (all_slices_alike(parts)) return concat_slices(parts);
  std::vector<Output> dense;
  for (const Gradient& part : parts) dense.push_back(part.dense());
  return make(dense[0].graph(), "AddN", dense);
}

struct OutputHash {
  std::size_t operator()(const Output& value) const {
    return std::hash<Node*>()(value.node) * 31 + static_cast<std::size_t>(value.index);
  }
};

// One call of gradients(): reverse accumulation over the nodes between xs and ys.
//
//  1. From ys backwards over the edges that can carry a gradient: the reachable nodes, sources first.
//  2. Forwards over those: the active nodes, which depend on an x.
//  3. Backwards over the active nodes: sum what arrived at each output, call the node's gradient function,
//     hand its results to the producers of the inputs. A value is complete when its producer is reached,
//     because every consumer comes later in the order.
class ReverseAccumulation {
 public:
  ReverseAccumulation(Graph& graph, const std::vector<Output>& xs, const GradientOptions& options)
      : graph_(graph), options_(options), local_(graph.id_limit(), kNotSeen) {
    xs_.insert(xs.begin(), xs.end());
    stopped_.insert(options.stop_gradients.begin(), options.stop_gradients.end());
  }

  void run(const std::vector<Output>& ys, const std::vector<Output>& grad_ys) {
    find_reachable(ys);
    find_active();
    for (std::size_t i = 0; i < ys.size(); ++i) arrived_[ys[i]].push_back(grad_ys[i]);
    for (std::size_t i = order_.size(); i-- > 0;) {
      if (active_[i]) differentiate(*order_[i]);
    }
  }

  // REQUIRES: run() is done.
  Gradient gradient_of(Output x) { return collect(x); }

 private:
  static constexpr int kNotSeen = -1;
  static constexpr int kEntered = -2;

  struct Key {
    bool operator()(const Output& a, const Output& b) const {
      return std::pair(a.node->id(), a.index) < std::pair(b.node->id(), b.index);
    }
  };

  bool is_active(const Node& node) const {
    // Gradient functions may add nodes: those lie past the end.
    const int local = node.id() < static_cast<int>(local_.size()) ? local_[node.id()] : kNotSeen;
    return local >= 0 && active_[local];
  }
  // Whether gradients pass from this value on to the node that made it.
  bool passes(Output value) const { return !stopped_.contains(value); }
  bool wants(Output value) const {
    return carries_gradient(value.dtype()) && (xs_.contains(value) || (passes(value) && is_active(*value.node)));
  }

  const GradFn* find_override(const std::string& key) const {
    auto it = options_.overrides.find(key);
    return it == options_.overrides.end() ? nullptr : &it->second;
  }

  // Throws when a custom gradient is asked for that nobody gave. Null: none.
  const GradFn* custom_gradient(const Node& node) const {
    if (const GradFn* by_name = find_override(node.name())) return by_name;
    const AttrValue* attr = node.find_attr("_gradient_op_type");
    const std::string* type = attr == nullptr ? nullptr : attr->get<std::string>();
    if (type != nullptr) {
      if (const GradFn* by_type = find_override("op:" + *type)) return by_type;
      // TensorFlow's clients mark calls of differentiable functions as "PartitionedCall-17": the op's own gradient.
      if (!type->starts_with(node.op_name() + "-")) {
        throw_error(not_found("gradients: node \"", printable(node.name()), "\" asks for the custom gradient \"",
                              printable(*type), "\", which the overrides do not have"));
      }
    }
    return find_override("op:" + node.op_name());
  }

  // Null: the op has none.
  const GradFn* gradient_function(const Node& node) const {
    if (const GradFn* custom = custom_gradient(node)) return custom;
    if (node.op().grad) return &node.op().grad;
    if (!graph_.library().contains(node.op_name())) return nullptr;
    const OpDef* call = graph_.ops().find("PartitionedCall");  // a function called by its own name
    return call != nullptr && call->grad ? &call->grad : nullptr;
  }

  bool ends_here(const Node& node) const { return node.op().no_gradient && custom_gradient(node) == nullptr; }

  void find_reachable(const std::vector<Output>& ys) {
    struct Visit {
      Node* node;
      std::size_t next_input;
    };
    std::vector<Visit> stack;
    auto enter = [&](Output value) {
      if (!passes(value) || local_[value.node->id()] != kNotSeen) return;
      local_[value.node->id()] = kEntered;
      stack.push_back({value.node, 0});
    };
    for (Output y : ys) {
      enter(y);
      while (!stack.empty()) {
        Visit& top = stack.back();
        const std::span<const Output> inputs = top.node->inputs();
        if (top.next_input < inputs.size() && !ends_here(*top.node)) {
          Output input = inputs[top.next_input++];
          if (input && carries_gradient(input.dtype())) enter(input);
          continue;
        }
        local_[top.node->id()] = static_cast<int>(order_.size());
        order_.push_back(top.node);
        stack.pop_back();
      }
    }
  }

  void find_active() {
    active_.assign(order_.size(), false);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (ends_here(*order_[i])) continue;
      for (Output input : order_[i]->inputs()) {
        if (input && wants(input)) active_[i] = true;
      }
    }
  }

  // The complete gradient of a value; sums once.
  Gradient collect(Output value) {
    auto it = arrived_.find(value);
    if (it == arrived_.end()) return {};
    if (it->second.size() > 1) it->second = {sum_of(it->second)};
    return it->second[0];
  }

  void differentiate(Node& node) {
    if (node.op().has(kControlFlow)) {
      throw_error(unimplemented("gradients: ", node.describe(), " is v1 control flow; use cond/while_loop"));
    }
    const GradFn* function = gradient_function(node);
    if (function == nullptr) {
      throw_error(unimplemented("gradients: no gradient registered for op ", node.op_name(), ", node \"",
                                printable(node.name()), "\""));
    }
    Scopes scopes(graph_, node);
    std::vector<Gradient> output_grads(node.num_outputs());
    bool any = false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!carries_gradient(node.output(i).dtype()) || !passes(node.output(i))) continue;
      output_grads[i] = collect(node.output(i));
      any = any || output_grads[i];
    }
    if (!any) return;
    GradContext context(node, output_grads);
    std::vector<bool> needed;
    for (Output input : node.inputs()) needed.push_back(input && wants(input));
    context.set_needed(needed);
    context.set_overrides(options_.overrides);
    (*function)(context);
    hand_over(node, needed, context.take_input_grads());
  }

  void hand_over(Node& node, const std::vector<bool>& needed, std::vector<Gradient> gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!needed[i] || !gradients[i]) continue;
      check(node, static_cast<int>(i), gradients[i]);
      arrived_[node.input(static_cast<int>(i))].push_back(std::move(gradients[i]));
    }
  }

  // A wrong gradient function shows here, not three nodes later.
  static void check(Node& node, int i, const Gradient& gradient) {
    Output input = node.input(i);
    if (gradient.is_sparse() || input.dtype() == DType::kResource) return;
    Output value = gradient.dense();
    if (value.dtype() == input.dtype() &&
        (input.dtype() == DType::kVariant || value.shape().compatible_with(input.shape()))) {
      return;
    }
    throw_error(invalid_argument("gradients: the gradient of ", node.describe(), " for input ", i, " is ",
                                 dtype_name(value.dtype()), " ", value.shape(), ", the input is ",
                                 dtype_name(input.dtype()), " ", input.shape()));
  }

  // Gradient nodes are named after the node, and sit with it where it was put somewhere.
  class Scopes {
   public:
    Scopes(Graph& graph, Node& node) : name_(graph.name_scope(node.name() + "_grad")) {
      if (node.requested_device().empty() && node.find_attr("_class") == nullptr) return;
      colocation_.emplace(graph.colocate_with(node));
    }

   private:
    ScopeGuard name_;
    std::optional<ScopeGuard> colocation_;  // goes first
  };

  Graph& graph_;
  const GradientOptions& options_;
  std::set<Output, Key> xs_;
  std::set<Output, Key> stopped_;
  std::vector<int> local_;    // by node id: position in order_
  std::vector<Node*> order_;  // reachable, sources first
  std::vector<bool> active_;  // by position
  std::unordered_map<Output, std::vector<Gradient>, OutputHash> arrived_;
};

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
  return make(graph, "UnsortedSegmentSum", {slices_->values, slices_->indices, first_element(slices_->dense_shape)});
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

  ScopeGuard scope = graph.name_scope("gradients");
  std::vector<Output> grad_ys;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    grad_ys.push_back(given_or_ones(ys[i], options.grad_ys.empty() ? Output() : options.grad_ys[i]));
  }
  ReverseAccumulation reverse(graph, xs, options);
  reverse.run(ys, grad_ys);
  std::vector<Gradient> result;
  for (Output x : xs) result.push_back(reverse.gradient_of(x));
  return result;
}

}  // namespace tutti

#include "tutti/ops/internal/differentiated_body.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tutti/graph/subgraph.h"
#include "tutti/ops/builders.h"

namespace tutti::internal {
namespace {

// Bodies nested deeper than this are refused rather than overflowing the stack.
constexpr std::size_t kMaxNesting = 64;

// The functions that are being differentiated around the current call, outermost first. gradients() has no
// argument to pass them through.
thread_local std::vector<std::string> under_way;

class UnderWay {
 public:
  explicit UnderWay(const std::string& function) {
    if (std::find(under_way.begin(), under_way.end(), function) != under_way.end()) {
      throw_error(unimplemented("gradients: function ", printable(function), " calls itself"));
    }
    if (under_way.size() >= kMaxNesting) {
      throw_error(
          resource_exhausted("gradients: functions nested deeper than ", kMaxNesting, ", at ", printable(function)));
    }
    under_way.push_back(function);
  }
  ~UnderWay() { under_way.pop_back(); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

bool carries_gradient(DType dtype) {
  return is_differentiable(dtype) || dtype == DType::kResource || dtype == DType::kVariant;
}

bool is_const(Output value) { return value.node->op_name() == "Const"; }

// The arguments that gradients can reach from `result`.
std::set<const Node*> reached_from(Output result, const GradientOverrides& overrides) {
  std::set<const Node*> seen;
  std::vector<Node*> stack;
  auto enter = [&](Output value) {
    if (carries_gradient(value.dtype()) && seen.insert(value.node).second) stack.push_back(value.node);
  };
  enter(result);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (node->op().no_gradient && overrides.empty()) continue;
    for (Output input : node->inputs()) enter(input);
  }
  return seen;
}

}  // namespace

std::vector<std::vector<bool>> gradient_paths(const FunctionBody& body, const GradientOverrides& overrides) {
  std::vector<std::vector<bool>> paths;
  for (Node* retval : body.retvals) {
    std::set<const Node*> seen = reached_from(retval->input(0), overrides);
    std::vector<bool> row;
    for (Node* arg : body.args) row.push_back(seen.contains(arg));
    paths.push_back(std::move(row));
  }
  return paths;
}

FunctionBody instantiate_body(Graph& outer, const FunctionRef& function) {
  return outer.library().instantiate(function, outer.shared_ops(), outer.shared_library()).value_or_throw();
}

Output zeros_like(Output value, DType dtype) {
  if (value.dtype() != DType::kResource) return op1("ZerosLike", {value});
  Output zero = add_op(value.graph(), "Const", {}, {{"dtype", dtype}, {"value", Tensor(dtype, Shape{})}})->output();
  return op1("Fill", {op1("VariableShape", {value}), zero});
}

DifferentiatedBody::DifferentiatedBody(Graph& outer, const FunctionRef& function, const std::vector<bool>& has_grad,
                                       const std::vector<bool>& wanted, const GradientOverrides& overrides)
    : outer_(outer), function_(function), body_(instantiate_body(outer, function)) {
  if (has_grad.size() != body_.retvals.size() || wanted.size() != body_.args.size()) {
    throw_error(invalid_argument("gradients: function ", printable(function.name), " has ", body_.args.size(),
                                 " arguments and ", body_.retvals.size(), " results, its caller ", wanted.size(),
                                 " and ", has_grad.size()));
  }
  UnderWay guard(function.name);
  first_new_id_ = graph().id_limit();
  add_gradients(has_grad, wanted, overrides);
}

void DifferentiatedBody::add_gradients(const std::vector<bool>& has_grad, const std::vector<bool>& wanted,
                                       const GradientOverrides& overrides) {
  std::vector<Output> ys;
  GradientOptions options;
  for (const auto& [key, function] : overrides) {
    if (key.starts_with("op:")) options.overrides[key] = function;
  }
  for (int i = 0; i < num_results(); ++i) {
    result_grads_.push_back(has_grad[i] ? add_arg(result(i).dtype(), result(i).shape()) : Output());
    if (!has_grad[i]) continue;
    ys.push_back(result(i));
    options.grad_ys.push_back(result_grads_[i]);
  }
  std::vector<Output> xs;
  for (int i = 0; i < num_args(); ++i) {
    if (wanted[i]) xs.push_back(arg(i));
  }
  arg_grads_.resize(num_args());
  arg_rows_.resize(num_args());
  if (ys.empty() || xs.empty()) return;
  std::vector<Gradient> found = gradients(ys, xs, options);
  refuse_v1_gradients();
  for (int i = 0, next = 0; i < num_args(); ++i) {
    if (!wanted[i]) continue;
    const Gradient& gradient = found[next++];
    if (gradient.is_sparse()) {
      arg_rows_[i] = gradient.slices();
    } else {
      arg_grads_[i] = gradient.dense();
    }
  }
}

// Values of branches and loops cannot be handed from the forward to the backward function.
void DifferentiatedBody::refuse_v1_gradients() {
  for (int id = first_new_id_; id < graph().id_limit(); ++id) {
    const Node* node = graph().node_by_id(id);
    if (node == nullptr || !node->op().has(kControlFlow)) continue;
    throw_error(unimplemented(
        "gradients: function ", printable(function_.name),
        " has v1 control flow on the way, which is differentiated outside of functions only; see ", node->describe()));
  }
}

void DifferentiatedBody::make_dense(int i) {
  if (!arg_rows_[i]) return;
  arg_grads_[i] = Gradient(*arg_rows_[i]).dense();
  arg_rows_[i].reset();
}

void DifferentiatedBody::set_zero_grad(int i, DType dtype) { arg_grads_[i] = zeros_like(arg(i), dtype); }

Output DifferentiatedBody::add_arg(DType dtype, const PartialShape& shape) {
  AttrMap attrs = {{"T", dtype}, {"index", 0}};  // extraction numbers the arguments
  if (shape.has_rank()) attrs["_output_shapes"] = std::vector<PartialShape>{shape};
  return add_op(graph(), "_Arg", {}, std::move(attrs))->output();
}

int DifferentiatedBody::arg_index(Output value) const {
  auto it = std::find(body_.args.begin(), body_.args.end(), value.node);
  return it == body_.args.end() ? -1 : static_cast<int>(it - body_.args.begin());
}

// Forward: what was there before, and what came with the gradient to feed it (a nested loop that was rewritten
// reads new nodes).
void DifferentiatedBody::mark_forward() {
  is_forward_.assign(graph().id_limit(), false);
  std::vector<Node*> stack;
  for (Node* node : graph().nodes()) {
    if (node->id() < first_new_id_) stack.push_back(node);
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (is_forward_[node->id()]) continue;
    is_forward_[node->id()] = true;
    for (Output input : node->inputs()) stack.push_back(input.node);
    for (Node* before : node->control_inputs()) stack.push_back(before);
  }
}

bool DifferentiatedBody::is_free(Output value, const std::vector<bool>& free_args) const {
  const int index = arg_index(value);
  return is_const(value) || (index >= 0 && free_args[index]);
}

// A gradient that reads only the shape of a value must not make the forward function keep the value.
void DifferentiatedBody::mark_shapes_forward(const std::vector<bool>& free_args) {
  for (Node* node : graph().topological_order().value_or_throw()) {
    if (is_forward_[node->id()] || !node->op().has(kMetadataOnly) || node->inputs().empty()) continue;
    bool all_forward = true;
    bool all_free = true;
    for (Output input : node->inputs()) {
      all_forward = all_forward && is_forward_[input.node->id()];
      all_free = all_free && is_free(input, free_args);
    }
    if (all_forward && !all_free) is_forward_[node->id()] = true;
  }
}

void DifferentiatedBody::note_use(Output value, const std::vector<bool>& free_args) {
  if (!is_forward_[value.node->id()] || is_const(value)) return;
  if (value.node->output_types()[value.index].is_ref) {
    throw_error(unimplemented("gradients: function ", printable(function_.name), ": its gradient needs ",
                              value.node->describe(), ", a reference to a variable"));
  }
  const int index = arg_index(value);
  if (index >= 0 && free_args[index]) {
    captured_args_.push_back(index);
  } else if (std::find(captures_.begin(), captures_.end(), value) == captures_.end()) {
    captures_.push_back(value);
  }
}

// Backward nodes move to another function: they keep neither order nor place of forward ones.
void DifferentiatedBody::cut_loose(Node& node) {
  std::vector<Node*> before;
  for (Node* control : node.control_inputs()) {
    if (!is_forward_[control->id()]) before.push_back(control);
  }
  if (before.size() != node.control_inputs().size()) graph().set_control_inputs(node, before);
  const AttrValue* attr = node.find_attr("_class");
  const auto* classes = attr == nullptr ? nullptr : attr->get<std::vector<std::string>>();
  if (classes != nullptr && !classes->empty()) graph().set_attr(node, "_class", std::vector<std::string>());
}

void DifferentiatedBody::split(const std::vector<bool>& free_args) {
  mark_forward();
  mark_shapes_forward(free_args);
  for (Node* node : graph().nodes()) {
    if (is_forward_[node->id()]) continue;
    backward_.push_back(node);
    cut_loose(*node);
    for (Output input : node->inputs()) note_use(input, free_args);
  }
  for (Output gradient : arg_grads_) {
    if (gradient) note_use(gradient, free_args);
  }
  for (const auto& rows : arg_rows_) {
    if (!rows) continue;
    note_use(rows->values, free_args);
    note_use(rows->indices, free_args);
  }
  std::sort(captured_args_.begin(), captured_args_.end());
  captured_args_.erase(std::unique(captured_args_.begin(), captured_args_.end()), captured_args_.end());
}

void DifferentiatedBody::replace_capture(Output capture, Output replacement) {
  for (Node* node : backward_) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      if (node->inputs()[i] == capture) {
        throw_if_error(graph().set_input(*node, static_cast<int>(i), replacement));
      }
    }
  }
  std::replace(arg_grads_.begin(), arg_grads_.end(), capture, replacement);
}

FunctionRef DifferentiatedBody::extract(const std::string& suffix, const std::vector<Output>& args,
                                        const std::vector<Output>& results, const std::vector<Node*>& targets) {
  Signature signature;
  for (Output value : args) signature.feeds.push_back(value.name());
  for (Output value : results) signature.fetches.push_back(value.name());
  for (Node* node : targets) signature.targets.push_back(node->name());
  FunctionBody part = extract_subgraph(graph(), signature).value_or_throw();
  // What is known of the variables behind resources.
  for (std::size_t i = 0; i < args.size(); ++i) {
    for (const auto& [name, value] : args[i].node->attrs()) {
      if (name.starts_with("_handle_")) part.graph->set_attr(*part.args[i], name, value);
    }
  }
  std::string name = outer_.library().unique_name(function_.name + suffix);
  throw_if_error(outer_.library().add(name, part));
  return FunctionRef{name, nullptr};
}

FunctionRef DifferentiatedBody::extract_forward(const std::vector<Output>& args, const std::vector<Output>& results) {
  return extract("_forward", args, results, body_.targets);
}

FunctionRef DifferentiatedBody::extract_backward(const std::vector<Output>& args, const std::vector<Output>& results) {
  return extract("_backward", args, results, {});
}

}  // namespace tutti::internal

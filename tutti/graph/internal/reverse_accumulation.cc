#include "tutti/graph/internal/reverse_accumulation.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

#include "tutti/graph/function.h"
#include "tutti/graph/internal/gradient_nodes.h"
#include "tutti/graph/internal/loop_gradient.h"

namespace tutti::internal {
namespace {

// Gradient nodes are named after the node, and sit with it where it was put somewhere.
class GradientScopes {
 public:
  GradientScopes(Graph& graph, Node& node) : name_(graph.name_scope(node.name() + "_grad")) {
    if (node.requested_device().empty() && node.find_attr("_class") == nullptr) return;
    colocation_.emplace(graph.colocate_with(node));
  }

 private:
  ScopeGuard name_;
  std::optional<ScopeGuard> colocation_;  // goes first
};

Output value_of(const Gradient& gradient) { return gradient.is_sparse() ? gradient.slices().values : gradient.dense(); }

bool is_conditional(const Node& node) {
  const LoopRole role = loop_role(node);
  return (role == LoopRole::kSwitch && loop_role(*node.input(1).node) != LoopRole::kCondition) ||
         (role == LoopRole::kMerge &&
          std::none_of(node.inputs().begin(), node.inputs().end(),
                       [&](const Output& input) { return !input || is_back_edge(*input.node, node); }));
}

// What stands for a loop. See the top of the header.
bool is_loop(const Node& unit) { return loop_role(unit) == LoopRole::kCondition || loop_role(unit) == LoopRole::kExit; }

// Their gradient functions may change the nodes.
bool calls_functions(const Node& node) {
  return std::any_of(node.attrs().begin(), node.attrs().end(), [](const auto& attr) {
    return attr.second.template get<FunctionRef>() != nullptr ||
           attr.second.template get<std::vector<FunctionRef>>() != nullptr;
  });
}

// What can be got to over these steps, which lead from one number to others. `set` has the first numbers.
std::vector<bool> closure_of(std::vector<bool> set, const std::vector<std::vector<std::size_t>>& steps) {
  set.resize(steps.size(), false);
  std::vector<std::size_t> stack;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set[i]) stack.push_back(i);
  }
  while (!stack.empty()) {
    const std::size_t at = stack.back();
    stack.pop_back();
    for (const std::size_t next : steps[at]) {
      if (set[next]) continue;
      set[next] = true;
      stack.push_back(next);
    }
  }
  return set;
}

// A wrong gradient function shows here, not three nodes later.
void check_gradient(Node& node, int i, const Gradient& gradient) {
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

}  // namespace

Node& add_plain(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs,
                std::vector<Node*> after, std::string device) {
  NodeSpec spec{.op = op, .name = graph.unique_name(op), .inputs = std::move(inputs), .attrs = std::move(attrs)};
  spec.control_inputs = std::move(after);
  spec.device = std::move(device);
  return *graph.add_exact(std::move(spec)).value_or_throw();
}

Node& GradientCall::gate(Output value) {
  if (loop_role(*value.node) != LoopRole::kSwitch) return *value.node;
  Node*& node = gates[value];
  if (node == nullptr) {
    node = &add_plain(graph, "Identity", {value}, {}, {}, value.node->requested_device());
    if (is_forward(*value.node)) new_forward.insert(node);
  }
  return *node;
}

ReverseAccumulation::ReverseAccumulation(GradientCall& call, const std::vector<Output>& xs)
    : call_(call), graph_(call.graph), frame_(0), xs_(xs.begin(), xs.end()) {
  stopped_.insert(call.options.stop_gradients.begin(), call.options.stop_gradients.end());
  local_.assign(graph_.id_limit(), kNotSeen);
}

ReverseAccumulation::ReverseAccumulation(GradientCall& call, const std::vector<Output>& xs,
                                         const std::vector<Output>& inputs, int frame, Reader reader)
    : call_(call),
      graph_(call.graph),
      frame_(frame),
      reader_(std::move(reader)),
      xs_(xs.begin(), xs.end()),
      stopped_(inputs.begin(), inputs.end()) {
  stopped_.insert(call.options.stop_gradients.begin(), call.options.stop_gradients.end());
  local_.assign(graph_.id_limit(), kNotSeen);
}

void ReverseAccumulation::run(const std::vector<Output>& ys, const std::vector<Output>& grad_ys) {
  find_reachable(ys);
  find_active();
  for (std::size_t i = 0; i < ys.size(); ++i) {
    Output gradient = grad_ys[i];
    if (frame_ == 0 && branch_of(ys[i]) != nullptr) {
      gradient = add_plain(graph_, "Identity", {gradient}, {}, {&call_.gate(ys[i])}).output();
    }
    arrived_[ys[i]].push_back(gradient);
  }
  for (std::size_t i = order_.size(); i-- > 0;) {
    if (active_[i]) differentiate(*order_[i]);
  }
}

// ---- Which nodes ----

// Loops of this region are one node each.
Node& ReverseAccumulation::unit_of(Node& node) const {
  if (call_.control_flow == nullptr || loop_role(node) != LoopRole::kExit) return node;
  const Loop& loop = call_.control_flow->loop_of(node);
  return loop.refusal.ok() ? *loop.condition : node;
}

std::span<const Output> ReverseAccumulation::inputs_of(const Node& unit) const {
  return is_loop(unit) ? std::span<const Output>(call_.control_flow->loop_of(unit).inputs) : unit.inputs();
}

bool ReverseAccumulation::is_active(Node& node) const {
  // Gradient functions may add nodes: those lie past the end.
  const Node& unit = unit_of(node);
  const int local = unit.id() < static_cast<int>(local_.size()) ? local_[unit.id()] : kNotSeen;
  return local >= 0 && active_[local];
}

bool ReverseAccumulation::wants(Output value) const {
  return carries_gradient(value.dtype()) && (xs_.contains(value) || (passes(value) && is_active(*value.node)));
}

bool ReverseAccumulation::ends_here(const Node& node) const {
  return node.op().no_gradient && custom_gradient(node) == nullptr;
}

void ReverseAccumulation::find_control_flow(const std::vector<Output>& ys) {
  call_.control_flow = std::make_unique<V1ControlFlow>(graph_, ys);
  const auto is_inside = [&](Output value) { return call_.control_flow->frame_of(value) != 0; };
  const auto y = std::find_if(ys.begin(), ys.end(), is_inside);
  if (y != ys.end()) inside_y_ = *y;
  std::copy_if(xs_.begin(), xs_.end(), std::back_inserter(inside_xs_), is_inside);
}

Output ReverseAccumulation::x_in(const Node& unit) const {
  if (inside_xs_.empty() || !is_loop(unit)) return {};
  const int frame = call_.control_flow->loop_of(unit).frame;
  const auto x = std::find_if(inside_xs_.begin(), inside_xs_.end(), [&](Output value) {
    return call_.control_flow->encloses(frame, call_.control_flow->frame_of(value));
  });
  return x == inside_xs_.end() ? Output() : *x;
}

void ReverseAccumulation::check_control_flow(const Node& unit) const {
  if (const Output inside = inside_y_ ? inside_y_ : x_in(unit)) {
    throw_error(unimplemented("gradients: ", inside.node->describe(),
                              " is inside of a v1 loop; only what leaves the loop can be differentiated, and with "
                              "respect to what enters it"));
  }
  if (is_loop(unit)) {
    throw_if_error(call_.control_flow->loop_of(unit).refusal);
  } else if (!is_conditional(unit)) {
    throw_error(unimplemented("gradients: ", unit.describe(), " is not part of a v1 loop as clients write them"));
  }
}

void ReverseAccumulation::find_reachable(const std::vector<Output>& ys) {
  struct Visit {
    Node* node;
    std::size_t next_input;
  };
  std::vector<Visit> stack;
  auto enter = [&](Output value) {
    if (!passes(value)) return;
    if (call_.control_flow == nullptr && value.node->op().has(kControlFlow)) find_control_flow(ys);
    Node& unit = unit_of(*value.node);
    if (local_[unit.id()] == kEntered) {
      throw_error(unimplemented("gradients: ", value.node->describe(), " depends on itself"));
    }
    if (local_[unit.id()] != kNotSeen) return;
    local_[unit.id()] = kEntered;
    stack.push_back({&unit, 0});
  };
  for (Output y : ys) {
    enter(y);
    while (!stack.empty()) {
      Visit& top = stack.back();
      const std::span<const Output> inputs = inputs_of(*top.node);
      if (top.next_input < inputs.size() && !ends_here(*top.node)) {
        Output input = inputs[top.next_input++];
        if (leads_on(input, *top.node) && carries_gradient(input.dtype())) enter(input);
        continue;
      }
      local_[top.node->id()] = static_cast<int>(order_.size());
      order_.push_back(top.node);
      stack.pop_back();
    }
  }
}

void ReverseAccumulation::find_active() {
  active_.assign(order_.size(), false);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (ends_here(*order_[i])) continue;
    if (x_in(*order_[i])) active_[i] = true;
    for (Output input : inputs_of(*order_[i])) {
      if (leads_on(input, *order_[i]) && wants(input)) active_[i] = true;
    }
  }
}

// The steps that gradients take lead from a unit to those that its inputs come from, and from an input of the body to
// where its next value comes from.
std::vector<bool> ReverseAccumulation::between(const std::vector<Output>& inputs, const std::vector<Output>& nexts,
                                               const std::vector<bool>& from, const std::vector<bool>& to) {
  std::vector<Output> ys;
  std::copy_if(nexts.begin(), nexts.end(), std::back_inserter(ys), [](Output next) { return bool(next); });
  find_reachable(ys);
  // The inputs come first, then the units.
  std::map<Output, std::size_t, Key> number_of;
  for (std::size_t i = 0; i < inputs.size(); ++i) number_of[inputs[i]] = i;
  std::vector<std::vector<std::size_t>> steps(inputs.size() + order_.size());
  std::vector<std::vector<std::size_t>> steps_back(steps.size());
  const auto add_step = [&](std::size_t at, Output value) {
    if (!carries_gradient(value.dtype())) return;
    const auto known = number_of.find(value);
    if (known == number_of.end() && !passes(value)) return;
    const std::size_t next =
        known != number_of.end() ? known->second : inputs.size() + local_[unit_of(*value.node).id()];
    steps[at].push_back(next);
    steps_back[next].push_back(at);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (nexts[i]) add_step(i, nexts[i]);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (ends_here(*order_[i])) continue;
    for (Output input : inputs_of(*order_[i])) {
      if (leads_on(input, *order_[i])) add_step(inputs.size() + i, input);
    }
  }
  const std::vector<bool> reached = closure_of(from, steps);
  const std::vector<bool> lead_on = closure_of(to, steps_back);
  std::vector<bool> result(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) result[i] = reached[i] && lead_on[i];
  return result;
}

// ---- Gradient functions ----

const GradFn* ReverseAccumulation::find_override(const std::string& key) const {
  auto it = call_.options.overrides.find(key);
  return it == call_.options.overrides.end() ? nullptr : &it->second;
}

// Throws when a custom gradient is asked for that nobody gave. Null: none.
const GradFn* ReverseAccumulation::custom_gradient(const Node& node) const {
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
const GradFn* ReverseAccumulation::gradient_function(const Node& node) const {
  if (const GradFn* custom = custom_gradient(node)) return custom;
  if (node.op().grad) return &node.op().grad;
  if (!graph_.library().contains(node.op_name())) return nullptr;
  const OpDef* call = graph_.ops().find("PartitionedCall");  // a function called by its own name
  return call != nullptr && call->grad ? &call->grad : nullptr;
}

// The complete gradient of a value; sums once.
Gradient ReverseAccumulation::collect(Output value) {
  auto it = arrived_.find(value);
  if (it == arrived_.end()) return {};
  if (it->second.size() > 1) {
    const Output anchor = value_of(it->second[0]);
    const int first = graph_.id_limit();
    it->second = {sum_of(it->second)};
    adopt(first, anchor, branch_of(value));
  }
  return it->second[0];
}

void ReverseAccumulation::differentiate(Node& unit) {
  if (loop_role(unit) == LoopRole::kCondition) return differentiate_loop(unit);
  GradientScopes scopes(graph_, unit);
  std::vector<Gradient> output_grads(unit.num_outputs());
  bool any = false;
  for (int i = 0; i < unit.num_outputs(); ++i) {
    if (!carries_gradient(unit.output(i).dtype()) || !passes(unit.output(i))) continue;
    output_grads[i] = collect(unit.output(i));
    any = any || output_grads[i];
  }
  if (!any) return;
  std::vector<bool> needed;
  for (Output input : unit.inputs()) needed.push_back(input && wants(input));
  std::vector<Gradient> gradients;
  if (!unit.op().has(kControlFlow)) {
    gradients = call_gradient_function(unit, output_grads, needed);
  } else {
    check_control_flow(unit);
    if (loop_role(unit) == LoopRole::kSwitch) {
      gradients = {switch_gradient(unit, output_grads), Gradient()};
    } else {
      gradients = merge_gradients(unit, dense(output_grads[0]));
    }
  }
  const Branch* branch = branch_of(loop_role(unit) == LoopRole::kSwitch ? unit.input(1) : unit.output());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (needed[i] && gradients[i]) hand_over(unit, static_cast<int>(i), std::move(gradients[i]), branch);
  }
}

std::vector<Gradient> ReverseAccumulation::call_gradient_function(Node& node, const std::vector<Gradient>& output_grads,
                                                                  const std::vector<bool>& needed) {
  const GradFn* function = gradient_function(node);
  if (function == nullptr) {
    throw_error(unimplemented("gradients: no gradient registered for op ", node.op_name(), ", node \"",
                              printable(node.name()), "\""));
  }
  const auto given = std::find_if(output_grads.begin(), output_grads.end(), [](const Gradient& g) { return bool(g); });
  const int first = graph_.id_limit();
  GradContext context(node, output_grads);
  context.set_needed(needed);
  context.set_overrides(call_.options.overrides);
  if (node.id() < call_.first_new_id && calls_functions(node)) call_.savepoint.save(node);
  (*function)(context);
  adopt(first, value_of(*given), branch_of(node.output()), &node);
  return context.take_input_grads();
}

// One side lives: its gradient, or zeros where nothing flows back from it.
Gradient ReverseAccumulation::switch_gradient(Node& node, const std::vector<Gradient>& output_grads) {
  Output sides[2] = {dense(output_grads[0]), dense(output_grads[1])};
  const DType dtype = (sides[0] ? sides[0] : sides[1]).dtype();
  for (int side : {0, 1}) {
    if (sides[side]) continue;
    const Output pred = here(node.input(1));
    const Output zero = zeros(node.input(0), dtype, pred);
    sides[side] = add_plain(graph_, "Switch", {zero, pred}, {}, {}, node.requested_device()).output(side);
  }
  return add_plain(graph_, "Merge", {sides[0], sides[1]}, {}, {}, node.requested_device()).output();
}

// The gradient goes to the input that was taken.
std::vector<Gradient> ReverseAccumulation::merge_gradients(Node& node, Output gradient) {
  std::vector<Gradient> gradients(node.inputs().size());
  const V1ControlFlow::Join join = call_.control_flow->join_at(node);
  if (join.pred) {
    Node& sides = add_plain(graph_, "Switch", {gradient, here(join.pred)}, {}, {}, node.requested_device());
    for (int side : {0, 1}) gradients[join.inputs[side]] = sides.output(side);
    return gradients;
  }
  const Output taken = here(node.output(1));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor number = Tensor::scalar(static_cast<std::int32_t>(i));
    Node& mine = add_plain(graph_, "Const", {}, {{"dtype", DType::kInt32}, {"value", number}}, {&call_.gate(gradient)});
    Node& is_mine = add_plain(graph_, "Equal", {taken, mine.output()});
    gradients[i] = add_plain(graph_, "Switch", {gradient, is_mine.output()}, {}, {}, node.requested_device()).output(1);
  }
  return gradients;
}

void ReverseAccumulation::differentiate_loop(Node& condition) {
  const Loop& loop = call_.control_flow->loop_of(condition);
  GradientScopes scopes(graph_, condition);
  std::vector<Gradient> exit_grads;
  for (const LoopVariable& variable : loop.variables) {
    const bool flows = variable.exit != nullptr && carries_gradient(variable.exit->output().dtype()) &&
                       passes(variable.exit->output());
    exit_grads.push_back(flows ? collect(variable.exit->output()) : Gradient());
  }
  if (std::none_of(exit_grads.begin(), exit_grads.end(), [](const Gradient& g) { return bool(g); })) return;
  check_control_flow(condition);
  std::vector<bool> needed;
  for (Output input : loop.inputs) needed.push_back(wants(input));
  const std::vector<Gradient> gradients = loop_gradients(call_, *this, loop, exit_grads, needed);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::size_t n = loop.variables.size();
    Node& enter = *(i < n ? loop.variables[i].enter : loop.invariants[i - n]);
    if (gradients[i]) hand_over(enter, 0, gradients[i], loop.branch);
  }
}

// `branch`: where the node, or the loop that it enters, lives.
void ReverseAccumulation::hand_over(Node& node, int i, Gradient gradient, const Branch* branch) {
  const Output input = node.input(i);
  check_gradient(node, i, gradient);
  // Where the node is dead and the input is not, the gradient would be dead and count as nothing at all.
  if (branch != nullptr && branch != branch_of(input) && loop_role(node) != LoopRole::kMerge &&
      call_.control_flow->is_known(branch) && call_.control_flow->is_known(branch_of(input))) {
    throw_error(unimplemented("gradients: ", node.describe(), ", in a branch of v1 control flow, reads ",
                              input.node->describe(), ", which is outside of it, without a Switch"));
  }
  if (!gradient.is_sparse()) gradient = here(gradient.dense());
  arrived_[input].push_back(std::move(gradient));
}

Output ReverseAccumulation::dense(const Gradient& gradient) {
  if (!gradient.is_sparse()) return gradient.dense();
  const int first = graph_.id_limit();
  Output result = gradient.dense();
  adopt(first, value_of(gradient), branch_of(gradient.slices().values));
  return result;
}

Output ReverseAccumulation::zeros(Output value, DType dtype, Output anchor) {
  const int first = graph_.id_limit();
  Output result = zero_gradient(value, dtype);
  adopt(first, anchor, branch_of(value));
  return result;
}

// ---- Adoption ----

const Branch* ReverseAccumulation::branch_of(Output value) const {
  return call_.control_flow == nullptr || inside_y_ ? nullptr : call_.control_flow->branch_of(value);
}

// Nodes from `first` on were made for the gradient of something in `branch`, the gradient of `source` where it is
// given; they are to live when `anchor` does.
void ReverseAccumulation::adopt(int first, Output anchor, const Branch* branch, Node* source) {
  if (call_.control_flow == nullptr || (frame_ == 0 && branch == nullptr)) return;
  const int limit = graph_.id_limit();
  if (source != nullptr) keep_forward(*source, first);
  for (int id = first; id < limit; ++id) {
    Node* node = graph_.node_by_id(id);
    if (node == nullptr || call_.is_forward(*node)) continue;
    if (frame_ != 0) read_here(*node, first);
    if (!call_.is_forward(*node) && node->inputs().empty()) graph_.add_control_input(*node, call_.gate(anchor));
  }
}

// What a gradient function gave its node to read (a functional loop gets variables that keep values) is forward.
void ReverseAccumulation::keep_forward(Node& source, int first) {
  const auto is_new = [&](const Node* node) { return node->id() >= first && !call_.is_forward(*node); };
  const auto old = std::find_if(source.inputs().begin(), source.inputs().end(),
                                [&](const Output& input) { return !is_new(input.node); });
  std::vector<Node*> stack;
  const auto enter = [&](const Node& reader) {
    for (Output input : reader.inputs()) {
      if (is_new(input.node) && call_.new_forward.insert(input.node).second) stack.push_back(input.node);
    }
  };
  enter(source);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    enter(*node);
    if (node->inputs().empty() && old != source.inputs().end()) {
      graph_.set_control_inputs(*node, {&call_.gate(*old)});
    }
  }
}

// A value of which only the shape is read must not be kept for each iteration: the shape is taken beforehand. What
// stays the same is at hand anyway.
bool ReverseAccumulation::reads_shapes_only(const Node& node) const {
  if (!node.op().has(kMetadataOnly) || node.inputs().empty()) return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Output& input) {
    return call_.is_forward(*input.node) && call_.control_flow->is_in(input, frame_) &&
           loop_role(*input.node) != LoopRole::kEnter && input.node->op_name() != "Const";
  });
}

void ReverseAccumulation::read_here(Node& node, int first) {
  std::vector<Node*> before;
  for (Node* control : node.control_inputs()) {
    if (control->id() >= first) before.push_back(control);
  }
  graph_.set_control_inputs(node, std::move(before));
  if (node.control_inputs().empty() && reads_shapes_only(node)) {
    call_.new_forward.insert(&node);
    call_.control_flow->note(node);
    return;
  }
  for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
    const Output value = here(node.input(i));
    if (value != node.input(i)) throw_if_error(graph_.set_input(node, i, value));
  }
}

}  // namespace tutti::internal

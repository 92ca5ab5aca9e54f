#include "tutti/graph/internal/v1_control_flow.h"

#include <algorithm>

namespace tutti::internal {
namespace {

bool is_loop_merge(const Node& node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Output& input) { return input && is_back_edge(*input.node, node); });
}

// Clients choose with a flag in one place and with its Identity in another.
Output origin_of(Output flag) {
  while (flag.node->op().has(kPassThrough) && !flag.node->op().has(kControlFlow)) flag = flag.node->input(0);
  return flag;
}

bool is_constant_enter(const Node& node) {
  return loop_role(node) == LoopRole::kEnter && node.attr<bool>("is_constant");
}

Status refuse(const Node& node, std::string_view why) {
  return unimplemented("gradients: ", node.describe(), ", in a v1 loop, ", why);
}

}  // namespace

V1ControlFlow::V1ControlFlow(const Graph& graph, const std::vector<Output>& ys)
    : order_(graph.topological_order().value_or_throw()), consumers_(graph.consumers()) {
  Result<LoopFrames> frames = LoopFrames::find(graph, order_);
  if (!frames.ok()) {
    keep_needed(ys);
    frames = LoopFrames::find(graph, order_);
  }
  frames_ = std::move(frames).value_or_throw();
  of_.resize(graph.id_limit(), &unknown_);
  for (const Node* node : order_) of_[node->id()] = nullptr;
  of_enters_.resize(frames_.frames.size());
  of_exits_.resize(frames_.frames.size());
  for (Node* node : order_) visit(*node);
}

void V1ControlFlow::keep_needed(const std::vector<Output>& ys) {
  std::vector<bool> needed(consumers_.size(), false);
  std::vector<const Node*> stack;
  const auto enter = [&](const Node* node) {
    if (node == nullptr || needed[node->id()]) return;
    needed[node->id()] = true;
    stack.push_back(node);
  };
  for (Output y : ys) enter(y.node);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) enter(input.node);
    for (const Node* before : node->control_inputs()) enter(before);
  }
  const auto is_not_needed = [&](const Node* node) { return !needed[node->id()]; };
  std::erase_if(order_, is_not_needed);
  for (std::vector<Node*>& readers : consumers_) std::erase_if(readers, is_not_needed);
}

void V1ControlFlow::visit(Node& node) {
  const int frame = frames_.of[node.id()];
  switch (loop_role(node)) {
    case LoopRole::kEnter: {
      const Branch*& of_loop = of_enters_[frames_.of_outputs[node.id()]];
      of_loop = both(of_loop, branch_of_inputs(node));
      return;
    }
    case LoopRole::kExit:
      if (!of_exits_[frame].first) of_exits_[frame] = {true, of_enters_[frame]};
      of_[node.id()] = of_exits_[frame].second;
      return;
    case LoopRole::kSwitch: {
      const Branch* own = of_[node.id()] = branch_of_inputs(node);
      if (loop_role(*node.input(1).node) == LoopRole::kCondition) return;
      for (int side : {0, 1}) of_sides_[&node][side] = side_of(own, node.input(1), side);
      return;
    }
    case LoopRole::kMerge: {
      if (is_loop_merge(node)) return;
      const Join join = join_at(node);
      of_[node.id()] = join.pred ? branch_of(node.input(join.inputs[0]))->outer : &unknown_;
      return;
    }
    default:
      of_[node.id()] = branch_of_inputs(node);
  }
}

void V1ControlFlow::set_branch(const Node& node, const Branch* branch) {
  if (node.id() >= static_cast<int>(of_.size())) of_.resize(node.id() + 1, &unknown_);
  of_[node.id()] = branch;
}

const Branch* V1ControlFlow::branch_of(Output value) const {
  if (value.node->id() >= static_cast<int>(of_.size())) return &unknown_;
  auto it = of_sides_.find(value.node);
  return it == of_sides_.end() ? of_[value.node->id()] : it->second[value.index];
}

// What two values need that one node reads: the inner one of nested branches.
const Branch* V1ControlFlow::both(const Branch* a, const Branch* b) const {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  if (!is_known(a) || !is_known(b)) return &unknown_;
  if (a->depth < b->depth) std::swap(a, b);
  const Branch* around = a;
  while (around->depth > b->depth) around = around->outer;
  return around == b ? a : &unknown_;
}

const Branch* V1ControlFlow::branch_of_inputs(const Node& node) const {
  const Branch* branch = nullptr;
  for (const Output& input : node.inputs()) {
    if (input) branch = both(branch, branch_of(input));
  }
  if (node.op().has(kIgnoresDeadControl)) return branch;
  for (const Node* before : node.control_inputs()) {
    branch = both(branch, before->id() < static_cast<int>(of_.size()) ? of_[before->id()] : &unknown_);
  }
  return branch;
}

const Branch* V1ControlFlow::side_of(const Branch* outer, Output pred, int side) {
  if (!is_known(outer)) return outer;
  const Output flag = origin_of(pred);
  const Branch*& branch = by_side_[{outer, flag.node, flag.index, side}];
  if (branch == nullptr) {
    branches_.push_back({.outer = outer, .pred = pred, .side = side, .depth = outer == nullptr ? 1 : outer->depth + 1});
    branch = &branches_.back();
  }
  return branch;
}

V1ControlFlow::Join V1ControlFlow::join_at(const Node& merge) const {
  if (merge.inputs().size() != 2 || !merge.input(0) || !merge.input(1)) return {};
  const Branch* a = branch_of(merge.input(0));
  const Branch* b = branch_of(merge.input(1));
  if (a == nullptr || b == nullptr || !is_known(a) || !is_known(b)) return {};
  if (a->outer != b->outer || origin_of(a->pred) != origin_of(b->pred) || a->side == b->side) return {};
  Join join{.pred = a->pred};
  join.inputs[a->side] = 0;
  join.inputs[b->side] = 1;
  return join;
}

bool V1ControlFlow::encloses(int frame, int inner) const {
  while (frames_.frames[inner].depth > frames_.frames[frame].depth) inner = frames_.frames[inner].parent;
  return inner == frame;
}

Result<LoopVariable> V1ControlFlow::variable_of(Node& enter, const Node& condition) const {
  LoopVariable variable{.enter = &enter};
  const std::vector<Node*>& readers = consumers_[enter.id()];
  if (readers.size() != 1 || loop_role(*readers[0]) != LoopRole::kMerge || readers[0]->inputs().size() != 2) {
    return refuse(enter, "is not constant and not read by just a Merge");
  }
  variable.merge = readers[0];
  for (Output input : variable.merge->inputs()) {
    if (input && is_back_edge(*input.node, *variable.merge)) variable.next = input.node;
  }
  if (variable.next == nullptr) return refuse(*variable.merge, "does not take what the iteration before it gave");
  for (Node* reader : consumers_[variable.merge->id()]) {
    if (loop_role(*reader) != LoopRole::kSwitch || reader->input(1).node != &condition) continue;
    if (reader->input(0) != variable.merge->output()) continue;
    if (variable.choice != nullptr) return refuse(*variable.merge, "is read by two Switches");
    variable.choice = reader;
  }
  if (variable.choice == nullptr) return refuse(*variable.merge, "is not read by a Switch of the loop's condition");
  for (Node* reader : consumers_[variable.choice->id()]) {
    if (loop_role(*reader) != LoopRole::kExit) continue;
    if (variable.exit != nullptr || reader->input(0).index != 0) {
      return refuse(*reader, "does not leave it as clients do");
    }
    variable.exit = reader;
  }
  return variable;
}

// `node`: one of the loop.
Status V1ControlFlow::find_variables(Loop& loop, const std::vector<Node*>& enters, const Node& node) const {
  if (loop.condition == nullptr) return refuse(node, "leaves a loop that has no LoopCond");
  auto exits = std::count_if(order_.begin(), order_.end(), [&](const Node* other) {
    return frames_.of[other->id()] == loop.frame && loop_role(*other) == LoopRole::kExit;
  });
  for (Node* enter : enters) {
    TUTTI_ASSIGN_OR_RETURN(LoopVariable variable, variable_of(*enter, *loop.condition));
    if (variable.exit != nullptr) --exits;
    loop.variables.push_back(variable);
  }
  if (exits != 0) return refuse(*loop.condition, "decides on a loop with Exits that are not those of its variables");
  const auto& [has_exit, of_exit] = of_exits_[loop.frame];
  if (has_exit && of_exit != loop.branch) {
    return refuse(*loop.condition, "decides on a loop that is entered from several branches");
  }
  return {};
}

const Loop& V1ControlFlow::loop_of(const Node& node) {
  const int frame = frames_.of[node.id()];
  auto [it, is_first] = loops_.try_emplace(frame);
  Loop& loop = it->second;
  if (!is_first) return loop;
  loop.frame = frame;
  loop.condition = frames_.frames[frame].condition;
  loop.name = frames_.frames[frame].name;
  loop.parallel_iterations = frames_.frames[frame].parallel_iterations;
  loop.branch = of_enters_[frame];
  std::vector<Node*> enters;
  for (Node* enter : order_) {
    if (frames_.of_outputs[enter->id()] != frame || loop_role(*enter) != LoopRole::kEnter) continue;
    (is_constant_enter(*enter) ? loop.invariants : enters).push_back(enter);
  }
  for (const Node* enter : enters) loop.inputs.push_back(enter->input(0));
  for (const Node* invariant : loop.invariants) loop.inputs.push_back(invariant->input(0));
  loop.refusal = find_variables(loop, enters, node);
  return loop;
}

}  // namespace tutti::internal

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

[[noreturn]] void refuse(const Node& node, std::string_view why) {
  throw_error(unimplemented("gradients: ", node.describe(), ", in a v1 loop, ", why));
}

}  // namespace

V1ControlFlow::V1ControlFlow(const Graph& graph)
    : order_(graph.topological_order().value_or_throw()), consumers_(graph.consumers()) {
  frames_ = LoopFrames::find(graph, order_).value_or_throw();
  of_.resize(graph.id_limit());
  of_enters_.resize(frames_.frames.size());
  of_exits_.resize(frames_.frames.size());
  for (Node* node : order_) visit(*node);
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
  for (const Node* before : node.control_inputs()) branch = both(branch, of_[before->id()]);
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

Node& V1ControlFlow::condition_of(const Node& exit) const {
  Node* condition = frames_.frames[frames_.of[exit.id()]].condition;
  if (condition == nullptr) refuse(exit, "leaves a loop that has no LoopCond");
  return *condition;
}

LoopVariable V1ControlFlow::variable_of(Node& enter, const Node& condition) const {
  LoopVariable variable{.enter = &enter};
  const std::vector<Node*>& readers = consumers_[enter.id()];
  if (readers.size() != 1 || loop_role(*readers[0]) != LoopRole::kMerge || readers[0]->inputs().size() != 2) {
    refuse(enter, "is not constant and not read by just a Merge");
  }
  variable.merge = readers[0];
  for (Output input : variable.merge->inputs()) {
    if (input && is_back_edge(*input.node, *variable.merge)) variable.next = input.node;
  }
  if (variable.next == nullptr) refuse(*variable.merge, "does not take what the iteration before it gave");
  for (Node* reader : consumers_[variable.merge->id()]) {
    if (loop_role(*reader) != LoopRole::kSwitch || reader->input(1).node != &condition) continue;
    if (reader->input(0) != variable.merge->output()) continue;
    if (variable.choice != nullptr) refuse(*variable.merge, "is read by two Switches");
    variable.choice = reader;
  }
  if (variable.choice == nullptr) refuse(*variable.merge, "is not read by a Switch of the loop's condition");
  for (Node* reader : consumers_[variable.choice->id()]) {
    if (loop_role(*reader) != LoopRole::kExit) continue;
    if (variable.exit != nullptr || reader->input(0).index != 0) refuse(*reader, "does not leave it as clients do");
    variable.exit = reader;
  }
  return variable;
}

const Loop& V1ControlFlow::loop_of(const Node& condition) {
  const int frame = frames_.of[condition.id()];
  auto [it, is_new] = loops_.try_emplace(frame);
  Loop& loop = it->second;
  if (!is_new) return loop;
  loop.frame = frame;
  loop.condition = frames_.frames[frame].condition;
  loop.name = frames_.frames[frame].name;
  loop.parallel_iterations = frames_.frames[frame].parallel_iterations;
  loop.branch = of_enters_[frame];
  std::size_t exits = 0;
  for (Node* node : order_) {
    if (frames_.of[node->id()] == frame && loop_role(*node) == LoopRole::kExit) ++exits;
    if (frames_.of_outputs[node->id()] != frame || loop_role(*node) != LoopRole::kEnter) continue;
    if (is_constant_enter(*node)) {
      loop.invariants.push_back(node);
    } else {
      loop.variables.push_back(variable_of(*node, *loop.condition));
    }
  }
  for (const LoopVariable& variable : loop.variables) {
    loop.inputs.push_back(variable.enter->input(0));
    if (variable.exit != nullptr) --exits;
  }
  for (Node* invariant : loop.invariants) loop.inputs.push_back(invariant->input(0));
  if (exits != 0) refuse(condition, "decides on a loop with Exits that are not those of its variables");
  if (of_exits_[frame].first && of_exits_[frame].second != loop.branch) {
    refuse(condition, "decides on a loop that is entered from several branches");
  }
  return loop;
}

}  // namespace tutti::internal

// v1 control flow as TensorFlow's clients write it: loops with their variables, and the branches that values are of.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/graph/internal/loop_frames.h"

namespace tutti::internal {

// One side of a conditional: what is in it lives when `pred` came out as `side`, and `outer` lives.
struct Branch {
  const Branch* outer = nullptr;  // null: the iteration, or the graph, as a whole
  Output pred;
  int side = 0;
  int depth = 1;
};

struct LoopVariable {
  Node* enter = nullptr;
  Node* merge = nullptr;
  Node* choice = nullptr;  // the Switch: output 1 goes into the body, output 0 leaves the loop
  Node* next = nullptr;    // the NextIteration
  Node* exit = nullptr;    // null when nobody asks for the last value
};

struct Loop {
  int frame = 0;
  Node* condition = nullptr;  // the LoopCond
  std::string name;
  std::int64_t parallel_iterations = 1;
  std::vector<LoopVariable> variables;
  std::vector<Node*> invariants;   // constant Enters
  std::vector<Output> inputs;      // what enters: the variables first, then the invariants
  const Branch* branch = nullptr;  // that the loop as a whole is in
  Status refusal;                  // says why, when it is not as clients write them; `variables` are not complete then
};

// Of one graph at one time; nodes that come later are told with `note`.
class V1ControlFlow {
 public:
  // Throws Error when loops that ys depend on are not well formed. When others are not, nothing is known but of what ys
  // depend on.
  V1ControlFlow(const Graph& graph, const std::vector<Output>& ys);

  // 0: outside of every loop. REQUIRES: not of a new node.
  int frame_of(Output value) const { return frames_.of_outputs[value.node->id()]; }
  // Whether the value is in that loop and in none inside of it. New nodes count as in every loop.
  bool is_in(Output value, int frame) const { return is_new(*value.node) || frame_of(value) == frame; }
  // Whether `inner` is that loop or inside of it.
  bool encloses(int frame, int inner) const;
  // The loop of a LoopCond, or the one that an Exit leaves.
  const Loop& loop_of(const Node& node);

  // Null: lives whenever its iteration does. Not known (see is_known) of what clients do not write, and of new nodes.
  const Branch* branch_of(Output value) const;
  bool is_known(const Branch* branch) const { return branch != &unknown_; }
  // The inputs of a conditional's Merge, by side of the conditional: {if false, if true}, as input numbers, and what
  // decides. Null `pred`: it is not that of one conditional.
  struct Join {
    Output pred;
    int inputs[2] = {0, 1};
  };
  Join join_at(const Node& merge) const;

  // Takes note of a new node, outside of control flow, or says which branch it is of.
  void note(const Node& node) { set_branch(node, branch_of_inputs(node)); }
  void set_branch(const Node& node, const Branch* branch);

 private:
  bool is_new(const Node& node) const { return node.id() >= static_cast<int>(frames_.of.size()); }
  void keep_needed(const std::vector<Output>& ys);
  const Branch* both(const Branch* a, const Branch* b) const;
  const Branch* branch_of_inputs(const Node& node) const;
  const Branch* side_of(const Branch* outer, Output pred, int side);
  void visit(Node& node);
  Result<LoopVariable> variable_of(Node& enter, const Node& condition) const;
  Status find_variables(Loop& loop, const std::vector<Node*>& enters, const Node& node) const;

  LoopFrames frames_;
  std::vector<Node*> order_;
  std::vector<std::vector<Node*>> consumers_;
  std::deque<Branch> branches_;
  Branch unknown_;
  std::map<std::tuple<const Branch*, const Node*, int, int>, const Branch*> by_side_;
  std::vector<const Branch*> of_;                                           // by node id
  std::unordered_map<const Node*, std::array<const Branch*, 2>> of_sides_;  // of a conditional's Switch
  // By frame: what the loop's Enters are in, all of them, and those that came before its first Exit.
  std::vector<const Branch*> of_enters_;
  std::vector<std::pair<bool, const Branch*>> of_exits_;
  std::map<int, Loop> loops_;  // by frame
};

}  // namespace tutti::internal

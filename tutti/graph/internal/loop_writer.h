// Writes v1 loops, or adds to one that is there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/internal/reverse_accumulation.h"

namespace tutti::internal {

// A variable is begun with its value at the start, chosen once the loop has a condition, and closed with the value that
// the next iteration sees. Everything throws Error.
class LoopWriter {
 public:
  // A new loop, of the gradients, like `loop`.
  LoopWriter(GradientCall& call, const Loop& loop, std::string frame_name)
      : call_(call), like_(loop), frame_name_(std::move(frame_name)) {}
  // More of the forward loop.
  LoopWriter(GradientCall& call, const Loop& loop)
      : call_(call), like_(loop), frame_name_(loop.name), condition_(loop.condition), is_forward_(true) {}

  // Gives the Merge.
  Node& begin(Output initial);
  void decide(Output condition) { condition_ = &add("LoopCond", {condition}); }
  // Gives the Switch: output 1 is the value in the body.
  Node& choose(Node& merge) { return add("Switch", {merge.output(), condition_->output()}); }
  Node& open(Output initial) { return choose(begin(initial)); }
  void close(Node& choice, Output next);
  // The last value.
  Output leave(Node& choice);
  Output enter_constant(Output value) { return enter(value, /*is_constant=*/true).output(); }

  Node& add(const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}, std::vector<Node*> after = {});
  Output add_const(Tensor value, Node& after);

 private:
  Node& enter(Output value, bool is_constant);

  GradientCall& call_;
  const Loop& like_;
  const std::string frame_name_;
  Node* condition_ = nullptr;
  const bool is_forward_ = false;
};

}  // namespace tutti::internal

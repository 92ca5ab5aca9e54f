#include "tutti/graph/internal/loop_writer.h"

#include <utility>

namespace tutti::internal {

Node& LoopWriter::add(const std::string& op, std::vector<Output> inputs, AttrMap attrs, std::vector<Node*> after) {
  Node& node = add_plain(call_.graph, op, std::move(inputs), std::move(attrs), std::move(after),
                         like_.condition->requested_device());
  if (is_forward_) call_.new_forward.insert(&node);
  return node;
}

Output LoopWriter::add_const(Tensor value, Node& after) {
  const DType dtype = value.dtype();
  return add("Const", {}, {{"dtype", dtype}, {"value", std::move(value)}}, {&after}).output();
}

Node& LoopWriter::enter(Output value, bool is_constant) {
  return add(
      "Enter", {value},
      {{"frame_name", frame_name_}, {"is_constant", is_constant}, {"parallel_iterations", like_.parallel_iterations}});
}

Node& LoopWriter::begin(Output initial) {
  return add("Merge", {enter(initial, /*is_constant=*/false).output(), Output()}, {{"T", initial.dtype()}, {"N", 2}});
}

void LoopWriter::close(Node& choice, Output next) {
  throw_if_error(call_.graph.set_input(*choice.input(0).node, 1, add("NextIteration", {next}).output()));
}

Output LoopWriter::leave(Node& choice) {
  Output last = add("Exit", {choice.output(0)}).output();
  if (is_forward_) call_.control_flow->set_branch(*last.node, like_.branch);
  return last;
}

}  // namespace tutti::internal

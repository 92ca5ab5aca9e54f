#include "tutti/ops/layout.h"

#include "tutti/ops/builders.h"

namespace tutti {

TopKOutputs top_k(Output x, std::int64_t k, const std::string& name) {
  Node* node = add_op(x.graph(), "TopKV2", {x, constant(x.graph(), k, DType::kInt32)}, {}, name);
  return {node->output(0), node->output(1)};
}

Output mirror_pad(Output x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings, const std::string& mode,
                  const std::string& name) {
  std::vector<std::int64_t> values;
  for (const auto& [before, after] : paddings) {
    values.push_back(before);
    values.push_back(after);
  }
  const Shape shape{static_cast<std::int64_t>(paddings.size()), 2};
  return op1("MirrorPad", {x, constant(x.graph(), Tensor::of<std::int64_t>(shape, values))}, {{"mode", mode}}, name);
}

Output reverse_sequence(Output x, Output lengths, std::int64_t seq_axis, std::int64_t batch_axis,
                        const std::string& name) {
  return op1("ReverseSequence", {x, lengths}, {{"seq_dim", seq_axis}, {"batch_dim", batch_axis}}, name);
}

Output roll(Output x, const Ints& shifts, const Ints& axes, const std::string& name) {
  return op1("Roll", {x, shifts.in(x.graph()), axes.in(x.graph())}, {}, name);
}

UniqueOutputs unique_with_counts(Output x, const std::string& name) {
  Node* node = add_op(x.graph(), "UniqueWithCounts", {x}, {}, name);
  return {node->output(0), node->output(1), node->output(2)};
}

Output tensor_scatter_update(Output tensor, Output indices, Output updates, const std::string& name) {
  return op1("TensorScatterUpdate", {tensor, indices, updates}, {}, name);
}
Output tensor_scatter_add(Output tensor, Output indices, Output updates, const std::string& name) {
  return op1("TensorScatterAdd", {tensor, indices, updates}, {}, name);
}
Output tensor_scatter_sub(Output tensor, Output indices, Output updates, const std::string& name) {
  return op1("TensorScatterSub", {tensor, indices, updates}, {}, name);
}

}  // namespace tutti

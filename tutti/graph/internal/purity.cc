#include "tutti/graph/internal/purity.h"

#include <algorithm>

#include "tutti/graph/function.h"

namespace tutti {
namespace {

bool reads_variable(const Output& input) {
  if (!input) return true;  // an open loop edge: not known
  const EdgeType type = input.node->output_types()[input.index];
  return type.is_ref || type.dtype == DType::kResource;
}

}  // namespace

bool calls_function(const Node& node) {
  if (node.graph().library().contains(node.op_name())) return true;
  return std::any_of(node.attrs().begin(), node.attrs().end(), [](const auto& attr) {
    return attr.second.kind() == "func" || attr.second.kind() == "list(func)";
  });
}

bool is_pure(const Node& node) {
  if (node.op().has(kStateful) || node.op().has(kControlFlow) || calls_function(node)) return false;
  if (std::any_of(node.inputs().begin(), node.inputs().end(), reads_variable)) return false;
  return std::none_of(node.output_types().begin(), node.output_types().end(),
                      [](const EdgeType& type) { return type.is_ref; });
}

bool shares_state(const Node& source, const Node& reader, int i) {
  const EdgeType type = reader.input_types()[static_cast<std::size_t>(i)];
  if (type.is_ref) return true;
  return type.dtype == DType::kResource && !calls_function(reader) && !calls_function(source);
}

}  // namespace tutti

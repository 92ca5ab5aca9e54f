#include "tutti/train/global_step.h"

#include "tutti/core/tensor.h"
#include "tutti/runtime/session.h"

namespace tutti {
namespace {

constexpr std::string_view kName = "global_step";

Node* find_step(Graph& graph) {
  const std::vector<Node*>& noted = graph.collection(kName);
  if (noted.size() > 1) {
    throw_error(invalid_argument("the collection \"global_step\" has ", noted.size(), " variables, of which \"",
                                 noted[0]->name(), "\" and \"", noted[1]->name(), "\""));
  }
  if (!noted.empty()) return noted[0];
  Node* named = graph.find(kName);
  return named != nullptr && named->op_name() == "VarHandleOp" ? named : nullptr;
}

}  // namespace

void assert_global_step(const Var& step) {
  if (step.dtype() != DType::kInt64 && step.dtype() != DType::kInt32) {
    throw_error(invalid_argument("global step \"", step.name(), "\": its type is ", dtype_name(step.dtype()),
                                 ", not an integer"));
  }
  if (!step.shape().has_rank() || step.shape().rank() != 0) {
    throw_error(invalid_argument("global step \"", step.name(), "\": its shape is ", step.shape(), ", not a scalar"));
  }
}

std::optional<Var> get_global_step(Graph& graph) {
  Node* handle = find_step(graph);
  if (handle == nullptr) return std::nullopt;
  Var step = variable_of(*handle);
  assert_global_step(step);
  return step;
}

Var create_global_step(Graph& graph) {
  if (get_global_step(graph)) throw_error(already_exists("\"global_step\" already exists."));
  const auto top = graph.name_scope("");
  Var step = variable(graph, Tensor::scalar<std::int64_t>(0), std::string(kName), /*trainable=*/false);
  graph.add_to_collection(kName, *step.handle().node);
  return step;
}

Var get_or_create_global_step(Graph& graph) {
  if (std::optional<Var> step = get_global_step(graph)) return *step;
  return create_global_step(graph);
}

std::int64_t step_value(const Tensor& step) {
  if (step.rank() == 0 && step.dtype() == DType::kInt64) return step.scalar<std::int64_t>();
  if (step.rank() == 0 && step.dtype() == DType::kInt32) return step.scalar<std::int32_t>();
  throw_error(invalid_argument("a global step should be an integer scalar, not ", step.to_string()));
}

std::int64_t read_global_step(Session& session, const Var& step) { return step_value(session.run({}, {step})[0]); }

}  // namespace tutti

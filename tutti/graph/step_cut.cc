#include "tutti/graph/step_cut.h"

#include "tutti/core/rendezvous_key.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti {
namespace {

bool is_client_end(const Node& node) { return node.op_name() == "_Arg" || node.op_name() == "_Retval"; }

// Placement was done for the whole graph; a signature's copy takes it over.
Status take_over_devices(FunctionBody& body, const Graph& placed, const std::string& client_device) {
  for (Node* node : body.graph->nodes()) {
    if (is_client_end(*node)) {
      body.graph->set_assigned_device(*node, client_device);
      continue;
    }
    const Node* original = placed.find(node->name());
    if (original == nullptr || original->assigned_device().empty()) {
      return internal_error(node->describe(), " has no device");
    }
    body.graph->set_assigned_device(*node, original->assigned_device());
  }
  return {};
}

// Who uses a handle that a call gave was put where the call is. With the call gone it shows where the handle is.
Status release_users_of_handles(Graph& graph) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.topological_order());
  for (Node* node : order) {
    if (is_client_end(*node) || node->assigned_device().empty()) continue;
    for (const Output& input : node->inputs()) {
      if (!input || input.dtype() != DType::kResource || is_client_end(*input.node)) continue;
      if (task_of(input.node->assigned_device()) != task_of(node->assigned_device())) {
        graph.set_assigned_device(*node, "");
      }
    }
  }
  return {};
}

// The body of a function, of a branch or of a loop may name devices of several tasks and use handles of several: it is
// cut with the rest. It inherits what its call asked for, not where the call happened to be put.
Status inline_calls(FunctionBody& body, const StepCutOptions& options) {
  if (body.graph->library().names().empty()) return {};
  TUTTI_RETURN_IF_ERROR(inline_functions(body));
  TUTTI_RETURN_IF_ERROR(lower_control_flow(body, Lowering::kUnneededEffects));
  prune(body);
  TUTTI_RETURN_IF_ERROR(lower_control_flow(body, Lowering::kAcrossTasks));
  TUTTI_RETURN_IF_ERROR(release_users_of_handles(*body.graph));
  bool all_placed = true;
  for (Node* node : body.graph->nodes()) {
    if (node->assigned_device().empty()) {
      all_placed = false;
    } else {
      body.graph->set_requested_device(*node, node->assigned_device());
    }
  }
  return all_placed ? Status() : options.place(*body.graph);
}

}  // namespace

Result<Partitioning> cut_step(FunctionBody& body, const Graph& placed, const StepCutOptions& options) {
  TUTTI_RETURN_IF_ERROR(take_over_devices(body, placed, options.partition.client_device));
  TUTTI_RETURN_IF_ERROR(inline_calls(body, options));
  TUTTI_RETURN_IF_ERROR(join_controls(body, options.partition.part_of));
  return partition(body, options.partition);
}

}  // namespace tutti

#include "tutti/graph/internal/functional_control_flow.h"

#include <set>
#include <string>

#include "tutti/graph/internal/reachable_functions.h"

namespace tutti {
namespace {

// Whether `device` names a job or task that `own` is not known to be in.
bool is_elsewhere(const DeviceName& device, const DeviceName& own) {
  if (device.replica && own.replica && *device.replica != *own.replica) return true;
  return (device.job && device.job != own.job) || (device.task && device.task != own.task);
}

Result<DeviceName> device_of(const Node& node, const DeviceName& outer) {
  const std::string& text = node.assigned_device().empty() ? node.requested_device() : node.assigned_device();
  Result<DeviceName> own = DeviceName::parse(text);
  if (!own.ok()) return own.status().with_context(node.describe());
  DeviceName device = outer;
  device.override_with(*own);
  return device;
}

}  // namespace

ControlFlowKind control_flow_kind(const Node& node) {
  std::string_view op = node.op_name();
  if (op.starts_with("Stateless")) op.remove_prefix(9);
  if (op == "If") return ControlFlowKind::kIf;
  if (op == "Case") return ControlFlowKind::kCase;
  return op == "While" ? ControlFlowKind::kWhile : ControlFlowKind::kNone;
}

std::vector<FunctionRef> control_flow_functions(const Node& node) {
  switch (control_flow_kind(node)) {
    case ControlFlowKind::kIf:
      return {node.attr<FunctionRef>("else_branch"), node.attr<FunctionRef>("then_branch")};
    case ControlFlowKind::kCase:
      return node.attr<std::vector<FunctionRef>>("branches");
    case ControlFlowKind::kWhile:
      return {node.attr<FunctionRef>("cond"), node.attr<FunctionRef>("body")};
    case ControlFlowKind::kNone:
      break;
  }
  return {};
}

Result<bool> leaves_its_task(const Node& node, const DeviceName& outer) {
  TUTTI_ASSIGN_OR_RETURN(const DeviceName own, device_of(node, outer));
  for (const Output& input : node.inputs()) {
    if (!input || input.dtype() != DType::kResource) continue;
    // Of an argument nobody knows yet.
    if (input.node->assigned_device().empty() && input.node->requested_device().empty()) return true;
    TUTTI_ASSIGN_OR_RETURN(const DeviceName handle, device_of(*input.node, outer));
    if (!handle.task || is_elsewhere(handle, own)) return true;
  }
  TUTTI_ASSIGN_OR_RETURN(const std::set<std::string> devices, devices_of_functions(node));
  for (const std::string& device : devices) {
    Result<DeviceName> name = DeviceName::parse(device);
    if (name.ok() && is_elsewhere(*name, own)) return true;  // who asks for a bad one is told when it is placed
  }
  return false;
}

}  // namespace tutti

// If, Case and While nodes, stateless or not: what they call, and whether that stays in their task.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/core/device_name.h"
#include "tutti/graph/graph.h"

namespace tutti {

enum class ControlFlowKind : std::uint8_t { kNone, kIf, kCase, kWhile };
ControlFlowKind control_flow_kind(const Node& node);

// Of an If the else branch and the then branch, of a Case the branches, of a While the condition and the body.
std::vector<FunctionRef> control_flow_functions(const Node& node);

// Whether functions behind `node` ask for devices of other tasks than the node's, or it takes handles of other tasks;
// in doubt it does. `outer` is what nodes around it ask for, where it is in a function itself.
Result<bool> leaves_its_task(const Node& node, const DeviceName& outer);

}  // namespace tutti

// Where nodes run once a graph is cut, which is not always where placement put them.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/function.h"

namespace tutti {

// By node id: the assigned device, with these exceptions. `_Arg` and `_Retval` are on the client's device. Switch and
// Exit go with their data input; Enter (of a value) and NextIteration with their first data reader: what goes round a
// loop then crosses no more often than it must. `order`: all nodes, sources first. kInvalidArgument for a node without
// a device.
Result<std::vector<std::string>> part_devices(const FunctionBody& body, const std::vector<Node*>& order,
                                              const std::string& client_device);

}  // namespace tutti

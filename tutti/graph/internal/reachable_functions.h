// The part of a function library that a graph needs.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"

namespace tutti {

// A library with the functions that `nodes` call, those that these call, and so on, with their gradients. `library`
// itself when it is empty.
Result<std::shared_ptr<FunctionLibrary>> reachable_functions(const std::vector<const Node*>& nodes,
                                                             const std::shared_ptr<FunctionLibrary>& library);

// The devices that nodes of functions ask for which `node` calls, which these call, and so on.
Result<std::set<std::string>> devices_of_functions(const Node& node);

}  // namespace tutti

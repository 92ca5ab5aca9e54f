// Asking a running graph which of its variables have no value yet.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"

namespace tutti {

// Variables of one worker alone, in the collection "local_variables": neither saved nor restored.
std::vector<Var> local_variables(Graph& graph);
// A node that gives each of them its initial value.
Node* local_variables_initializer(Graph& graph);

// A vector of strings: the names of those of `variables` that have no value. Each is asked on its own task; the names
// are put together where the session's target is.
Output report_uninitialized_variables(Graph& graph, const std::vector<Var>& variables, const std::string& name);

}  // namespace tutti

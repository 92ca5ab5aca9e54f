// How builder functions make nodes. Throws Error: this is the public edge.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// Adds a node of any op; the typed functions in the headers beside this one are better where they exist.
Node* add_op(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs = {},
             const std::string& name = "");
// Its first output.
Output op1(const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}, const std::string& name = "");

}  // namespace tutti

// GraphDef in and out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tutti/graph/graph.h"

namespace tutti {

struct ImportOptions {
  std::string prefix;  // put before every name, with a '/'
  // Called when everything was added; its error takes the addition back.
  std::function<Status(Graph&)> accept = nullptr;
};

// Adds the nodes and functions of a serialised GraphDef. All or nothing: on an error `graph` keeps its
// nodes as they were. Nodes may come in any order. Errors name the node: duplicate or bad name, missing input, wrong
// arity, type, attribute or shape, a cycle, truncated bytes (kInvalidArgument). A node of an unknown op is kept, and is
// kNotFound for the steps that need it.
Status import_graph_def(std::string_view bytes, Graph& graph, const ImportOptions& options = {});

// Everything in the graph, with what we do not model (unknown fields, debug information) as it came.
// `first_id`: of the nodes, those with this id or a higher one.
std::string export_graph_def(const Graph& graph, int first_id = 0);
// The same as text, for people.
std::string graph_def_text(const Graph& graph);

}  // namespace tutti

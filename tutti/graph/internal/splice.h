// A function's body put into a graph that has v1 control flow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"

namespace tutti {

// What an argument stands for in the graph.
struct SplicedArgument {
  Output value;
  bool is_gated = true;  // dead where the body is not to run
};

struct SpliceSpec {
  const Node& call;  // devices that the body leaves open are as this node asks
  const FunctionBody& callee;
  std::string scope;                                     // goes before the names of the body's nodes
  Node* pivot = nullptr;                                 // runs when the body is to run, and in its loop
  std::function<Result<SplicedArgument>(int)> argument;  // asked for those that the body needs
};

struct SplicedBody {
  std::vector<SplicedArgument> results;
  std::vector<Node*> effects;  // those of the body's targets that are not arguments
  int num_nodes = 0;
};

// Copies what the body's results and targets need. Nodes that would run whatever becomes of the arguments wait for the
// pivot, and are thereby dead with it. Loops of the body get names of their own.
Result<SplicedBody> splice_body(Graph& graph, const SpliceSpec& spec);

}  // namespace tutti

// The part of a graph that one signature needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"

namespace tutti {

// What a run feeds, fetches and merely runs: tensor names "node:k" and node names.
struct Signature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  bool operator==(const Signature&) const = default;
};

// A copy of the nodes that `signature` reaches, as a body: feeds become `_Arg`s, fetches `_Retval`s, in
// order, and targets are `targets`. Fed outputs cut what is behind them. Linear in the size of the part;
// iterative. Errors name the feed, fetch or target: kNotFound when the graph has no such node,
// kInvalidArgument when it has no such output or a name is fed twice.
Result<FunctionBody> extract_subgraph(const Graph& graph, const Signature& signature);

// Removes what neither `retvals`, `targets` nor `args` need.
void prune(FunctionBody& body);

}  // namespace tutti

// The part of a graph that one signature needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"

namespace tutti {

// Everybody who takes tensor `to` gets tensor `from` instead.
struct TensorConnection {
  std::string from;
  std::string to;
  auto operator<=>(const TensorConnection&) const = default;
};

// What a run feeds, fetches and merely runs: tensor names "node:k" and node names.
struct Signature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::vector<TensorConnection> connections = {};
  bool operator==(const Signature&) const = default;
};

// A copy of the nodes that `signature` reaches, as a body: feeds become `_Arg`s, fetches `_Retval`s, in
// order, and targets are `targets`. Fed and connected outputs cut what is behind them. Linear in the size of the part;
// iterative. Errors name the feed, fetch, target or connection: kNotFound when the graph has no such node,
// or the part has a node of an unknown op,
// kInvalidArgument when it has no such output, a name is given two values, or a connection's ends do not fit.
Result<FunctionBody> extract_subgraph(const Graph& graph, const Signature& signature);

// Removes what neither `retvals`, `targets` nor `args` need.
void prune(FunctionBody& body);

}  // namespace tutti

// The global step: how many updates the variables of a job have seen, counted by all workers together.
#pragma once

#include <cstdint>
#include <optional>

#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"

namespace tutti {

class Session;

// The graph's step; nothing when it has none. Known by the collection "global_step", else by that name.
// Errors: kInvalidArgument when it is not an integer scalar, or the collection has several.
std::optional<Var> get_global_step(Graph& graph);
// An int64 scalar "global_step" (whatever name scope is open), zero at first, not trainable, in the collections
// "global_step" and "variables". kAlreadyExists when the graph has one.
Var create_global_step(Graph& graph);
Var get_or_create_global_step(Graph& graph);
// kInvalidArgument when `step` is not an integer scalar.
void assert_global_step(const Var& step);

// Its value now: a step of its own.
std::int64_t read_global_step(Session& session, const Var& step);
// A fetched step as a number. kInvalidArgument for what is not an integer scalar.
std::int64_t step_value(const Tensor& step);

}  // namespace tutti

// Nodes that replicas need to keep in step, named as TensorFlow names them.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"

namespace tutti {

// Cast where it is of another type.
Output as_int64(Output value);
// A read that is placed where its variable is, whatever scopes are open, at this point of the order.
Output read_in_place(const Var& variable);
// The same as int64.
Output read_step(const Var& step);
// The device that a variable was asked to be on.
const std::string& device_of(const Var& variable);

// A variable of this worker's own, beside `anchor`, which is in the collection local_variables and in no checkpoint.
Var local_variable(Graph& graph, const Node& anchor, Tensor initial_value, const std::string& name);

// Names of those `variables` that have no value, under "report_uninitialized_variables".
Output report_uninitialized(Graph& graph, const std::vector<Var>& variables);

// Runs when all of `nodes` have, waiting on each device for those that are there.
Node* group_by_device(Graph& graph, const std::vector<Node*>& nodes);

// A vector of `count` times the step's value once `after` have run, as node "Fill".
Output fill_with_step(const Var& step, int count, const std::vector<Node*>& after);

}  // namespace tutti

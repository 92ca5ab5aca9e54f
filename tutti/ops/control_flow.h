// Builders of functions, branches and loops. All throw Error.
//
// The functions given here build bodies: each gets the graph to build in and the values that its arguments stand
// for, and returns results made in that graph. What a body needs from outside is passed to it (`captured`,
// loop variables); using a value of the outer graph inside is an Error. Nodes with effects (assignments) run
// whenever their body runs; order them with Graph::control_dependencies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

using BodyFn = std::function<std::vector<Output>(Graph& body, const std::vector<Output>& args)>;

// The results of `then_fn(captured)` when `pred` is true, else of `else_fn(captured)`. Both must return the same
// number of values of the same types.
std::vector<Output> cond(Output pred, const std::vector<Output>& captured, const BodyFn& then_fn, const BodyFn& else_fn,
                         const std::string& name = "cond");

// The results of branches[index](captured); of the last branch when `index` (an int32 scalar) is out of range.
std::vector<Output> case_(Output index, const std::vector<Output>& captured, const std::vector<BodyFn>& branches,
                          const std::string& name = "case");

struct WhileOptions {
  // What stays true of the variables' shapes in every iteration; where left out, their initial shapes.
  std::vector<PartialShape> shape_invariants;
  std::string name = "while";
};

// Variables start as `initial`; while `cond_fn` of them (one value) is true, they become what `body_fn` of them
// returns. The results are the variables at the end. Gradients of tables that the body reads rows of are dense, unlike
// those through `cond`, `case_` and `call`.
std::vector<Output> while_loop(const std::vector<Output>& initial, const BodyFn& cond_fn, const BodyFn& body_fn,
                               const WhileOptions& options = {});

// Puts a function into the graph's library. Throws when the name is taken.
void define_function(Graph& graph, const std::string& name, const std::vector<DType>& arg_types, const BodyFn& body_fn,
                     const std::vector<PartialShape>& arg_shapes = {});

// Calls a function of the library. `args` may be empty, hence the graph.
std::vector<Output> call(Graph& graph, const std::string& function, const std::vector<Output>& args,
                         const std::string& name = "");

}  // namespace tutti

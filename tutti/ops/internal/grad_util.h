// Pieces that gradient functions share. They throw Error.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/graph.h"

namespace tutti::internal {

// The conjugate of a complex value; a real value itself.
Output conjugate(Output x);
// A constant of x's graph and type.
Output scalar_like(Output x, double value);
Output int_vector(Graph& graph, const std::vector<std::int64_t>& values);
// The shape of x as a value: a constant when it is known.
Output known_shape_of(Output x);
// The integers that `x` is before the run, if it is a constant.
std::optional<std::vector<std::int64_t>> known_integers(Output x);

// The gradient of a value that was broadcast with shape of `x` against `other`: `grad` summed over the dimensions in
// which x was repeated. Without nodes where the shapes say that nothing was; else with known axes where they are known,
// and with BroadcastGradientArgs where not.
Output unbroadcast(Output grad, Output x, Output other);

// Of a reduction with axes in input 1: the input's shape with reduced dimensions set to 1, as a value.
Output kept_dims_shape(Node& reduction);

}  // namespace tutti::internal

// Small pieces of graph that several optimisers are made of.
#pragma once

#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"

namespace tutti {

// variable *= factor, beside the variable.
Node* multiply_in_place(const Var& variable, Output factor);

// Rows of a variable, by index along its first dimension.
Output gather_rows(const Var& variable, Output indices);
Node* assign_rows(const Var& variable, Output indices, Output rows);
Node* subtract_rows(const Var& variable, Output indices, Output rows);

}  // namespace tutti

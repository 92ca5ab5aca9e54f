// Which nodes passes may compute earlier, share or leave out.
#pragma once

#include "tutti/graph/graph.h"

namespace tutti {

// Whether the node runs a function of the library, by its name or by an attribute.
bool calls_function(const Node& node);

// No state, no effects, no loop edge, no call, and it reads no variable: neither through a reference nor
// through a handle. Its outputs are a function of its inputs' values.
bool is_pure(const Node& node);

}  // namespace tutti

// Which nodes passes may compute earlier, share or leave out, and which belong together.
#pragma once

#include "tutti/graph/graph.h"

namespace tutti {

// Whether the node runs a function of the library, by its name or by an attribute.
bool calls_function(const Node& node);

// No state, no effects, no loop edge, no call, and it reads no variable: neither through a reference nor
// through a handle. Its outputs are a function of its inputs' values.
bool is_pure(const Node& node);

// Whether input `i` of `reader`, which `source` gives, is a reference or a handle, so that both are on one device.
// Those of a call are not counted: its body may use handles of several devices.
bool shares_state(const Node& source, const Node& reader, int i);

}  // namespace tutti

// Variables that are kept beside others.
#pragma once

#include <functional>
#include <string>

#include "tutti/ops/state.h"

namespace tutti {

// A variable that does not train, called `name` under the name scope `scope`. It starts as what `initial` builds.
// Neither its initial value nor its read waits for what the control dependencies that are open now say.
Var create_apart(Graph& graph, const std::string& scope, const std::string& name,
                 const std::function<Output(Graph&)>& initial);

// The same beside `primary`, and so on whatever task it is placed on. A variable of the shape of a part of a
// partitioned variable is the same part of a whole of its own.
Var create_slot(const Var& primary, const std::string& scope, const std::string& name,
                const std::function<Output(Graph&)>& initial);

// The initial value of a slot of the shape of `variable`. Throws Error, which begins with `who`, where that is open.
std::function<Output(Graph&)> filled_like(const Var& variable, double value, const std::string& who);

}  // namespace tutti

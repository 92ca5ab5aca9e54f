// The versions that a GraphDef carries.
#pragma once

#include <string_view>

#include "tutti/core/status.h"

namespace tutti::internal {

// versions.producer without reading the nodes; 0 when the GraphDef tells none.
Result<int> graph_producer(std::string_view graph_def);

}  // namespace tutti::internal

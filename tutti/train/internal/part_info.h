// Which part of a partitioned variable a variable is, by the attributes of its node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti::internal {

struct PartInfo {
  std::string full_name;  // of the whole, as checkpoints have it
  Shape full_shape;
  std::vector<std::int64_t> offset;
  Shape shape;  // of the part

  // As SaveV2 and RestoreV2 take it: "10 4 0,5:0,4".
  std::string spec() const;
};

// Nothing for a whole. Reads `_full_name`, `_full_shape` and `_slice_offset`; kInvalidArgument when they do not fit
// the variable: the graph may come from anywhere.
Result<std::optional<PartInfo>> part_info(const Node& variable);

}  // namespace tutti::internal

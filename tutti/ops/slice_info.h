// Which part of a partitioned variable a variable is. Optimisers give it to the slots of parts, and a saver writes a
// part as a slice of the whole, under the whole's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/shape.h"
#include "tutti/ops/state.h"

namespace tutti {

struct SliceInfo {
  std::string full_name;  // of the whole: "w" of "w/part_0", "w/Adam" of "w/part_0/Adam"
  Shape full_shape;
  std::vector<std::int64_t> offset;  // where the part begins, in each dimension
  Shape shape;                       // of the part

  // As SaveV2 and RestoreV2 take it: "9 20 0,5:0,20".
  std::string spec() const;
  bool operator==(const SliceInfo&) const = default;
};

// None: the variable is a whole. It is kept in attributes of the handle (`_full_name`, `_full_shape`, `_slice_offset`)
// and so goes with the graph wherever it goes.
std::optional<SliceInfo> slice_info(const Var& variable);
// The same by the node of a variable, resource or reference. None as well where the attributes make no sense: the graph
// may come from anywhere.
std::optional<SliceInfo> slice_info(const Node& variable);
// Throws Error where the part does not lie in the whole, or is not of the variable's shape.
void set_slice_info(const Var& variable, const SliceInfo& info);

}  // namespace tutti

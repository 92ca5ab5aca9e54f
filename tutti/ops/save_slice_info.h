// How checkpoints know a variable that is a part of a larger one. TensorFlow's SaveSliceInfo.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

struct SaveSliceInfo {
  std::string full_name;  // of the whole, as the checkpoint has it
  std::vector<std::int64_t> full_shape;
  std::vector<std::int64_t> offset;  // of the part in the whole
  std::vector<std::int64_t> shape;   // of the part

  // As SaveV2 and RestoreV2 take it: "10 4 0,5:0,4".
  std::string spec() const;
  bool operator==(const SaveSliceInfo&) const = default;
};

// Notes it at the node of a variable (VarHandleOp, VariableV2), in attributes that begin with "_save_slice": they go
// wherever the graph goes. Throws Error (kInvalidArgument) when ranks differ or the part leaves the whole.
void set_save_slice_info(Node& variable, const SaveSliceInfo& info);
// Nothing for a variable that is a whole.
std::optional<SaveSliceInfo> save_slice_info(const Node& variable);

}  // namespace tutti

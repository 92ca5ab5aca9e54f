// Where each argument of a signature lies in a node's flat list of inputs or outputs.
#pragma once

#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/graph/op_def.h"

namespace tutti {

struct ArgRange {
  int begin = 0;
  int count = 0;
};

// One range an argument. REQUIRES: attributes that resolve_types accepts.
std::vector<ArgRange> arg_ranges(const std::vector<ArgDef>& args, const AttrMap& attrs);

}  // namespace tutti

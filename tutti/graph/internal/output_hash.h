// Outputs as keys of hash maps.
#pragma once

#include <cstddef>
#include <functional>

#include "tutti/graph/graph.h"

namespace tutti {

struct OutputHash {
  std::size_t operator()(const Output& output) const {
    return std::hash<Node*>()(output.node) * 31 + static_cast<std::size_t>(output.index);
  }
};

}  // namespace tutti

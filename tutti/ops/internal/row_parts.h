// What rows of several families have in common.
#pragma once

#include "tutti/core/dtype.h"
#include "tutti/graph/shape_inference.h"

namespace tutti::internal {

inline constexpr DTypeSet kQuantised{DType::kQint8, DType::kQuint8, DType::kQint16, DType::kQuint16, DType::kQint32};

// The shape rule of handles in their old form: container and name.
inline Status two_names(ShapeContext& c) {
  c.set_output(0, PartialShape{2});
  return {};
}

}  // namespace tutti::internal

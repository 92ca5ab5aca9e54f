// Inputs on which the ops of the table are tried: what is different for each op, so that tests need no code of
// their own for any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/tensor.h"
#include "tutti/graph/graph.h"

namespace tutti::testing {

struct SampleInput {
  enum Kind {
    kFixed,     // not differentiable: an index, an axis, a shape
    kValue,     // double, to be differentiated
    kVariable,  // a resource; its gradient is that of the variable, whose value this is
  };
  Tensor value;
  Kind kind = kFixed;
};

struct OpSample {
  std::string op;
  AttrMap attrs;
  std::vector<SampleInput> inputs;
  // Makes the values to differentiate; null: the op's floating outputs. For ops on lists and such, which
  // cannot be fed: wraps the op between ops that can. A sample counts for `op` only.
  std::function<std::vector<Output>(Graph&, const std::vector<Output>&)> build = nullptr;
  // Outputs to differentiate; empty: all that are floating.
  std::vector<int> outputs = {};
  // The gradient needs fixed inputs as constants: they are not tried as unknown values.
  bool needs_constants = false;
  // Of the central difference and of the comparison. Wider for ops that exist in float only.
  double step = 1e-5;
  double tolerance = 1e-6;
};

// At least one for every row with a gradient; several where attributes or shapes choose another path.
std::vector<OpSample> gradient_samples();

}  // namespace tutti::testing

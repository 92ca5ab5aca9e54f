// Inputs on which the gradients of sparse, segment and ragged ops are tried.
#pragma once

#include <vector>

#include "tests/ops/op_samples.h"

namespace tutti::testing {

std::vector<OpSample> sparse_gradient_samples();

}  // namespace tutti::testing

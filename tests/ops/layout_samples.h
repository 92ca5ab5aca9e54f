// Samples (see op_samples.h) of ops that arrange, sort and multiply along dimensions.
#pragma once

#include <vector>

#include "tests/ops/op_samples.h"

namespace tutti::testing {

std::vector<OpSample> layout_samples();

}  // namespace tutti::testing

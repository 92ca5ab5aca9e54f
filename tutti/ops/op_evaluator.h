// Running one op by itself, without a graph or an executor: for constant folding and for tests.
#pragma once

#include <string_view>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/ops/op_table.h"

namespace tutti {

// Makes the op's CPU kernel and runs it once on heap memory. Attributes that the inputs imply and defaults
// may be left out. `step_resources` is what ops of one step share; null: a store of its own. Not for ops with reference
// inputs or asynchronous kernels (kInvalidArgument).
Result<std::vector<Tensor>> evaluate_op(const OpTable& table, std::string_view op, AttrMap attrs,
                                        const std::vector<Tensor>& inputs, const Services& services = {},
                                        ResourceStore* step_resources = nullptr);

}  // namespace tutti

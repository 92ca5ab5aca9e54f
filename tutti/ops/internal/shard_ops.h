// The rows of strict synchronous training, for register_accumulator_ops.
#pragma once

#include "tutti/ops/op_table.h"

namespace tutti {

void add_shard_ops(OpTable& ops);

}  // namespace tutti

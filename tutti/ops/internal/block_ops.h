// Rows of the ops that move blocks of space; a part of the array ops.
#pragma once

#include "tutti/ops/op_table.h"

namespace tutti::internal {

void add_block_ops(OpTable& ops);

}  // namespace tutti::internal

// Rows of sparse tensors, groups of rows, ragged tensors and random numbers beyond the first; parts of the op table.
#pragma once

#include "tutti/ops/op_table.h"

namespace tutti::internal {

void add_segment_ops(OpTable& ops);
void add_sparse_ops(OpTable& ops);
void add_ragged_ops(OpTable& ops);
void add_random_law_ops(OpTable& ops);

}  // namespace tutti::internal

// Embedding bags: rows of a table, named by indices, added up by sorted segments; and their gradients.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// What a sum of n rows is multiplied with.
enum class SegmentScale { kOne, kMean, kSqrtN };  // 1, 1 / n, 1 / sqrt(n)

// Inputs data, indices, segment_ids and, where `counted`, num_segments. Segments without rows are 0.
KernelFactory sparse_segment_kernel(SegmentScale scale, bool counted);
// Inputs grad, indices, segment_ids and the number of the table's rows. Output: the gradient of the whole table; where
// `sparse`, of the rows that were used, and as a second output which these are, in order.
KernelFactory sparse_segment_grad_kernel(SegmentScale scale, bool sparse);

}  // namespace tutti::cpu

// Gradients of ops that join groups of rows.
#pragma once

#include "tutti/graph/gradients.h"

namespace tutti::internal {

void segment_mean_grad(GradContext& c);
void segment_prod_grad(GradContext& c);
void segment_extreme_grad(GradContext& c);  // minimum, maximum
void unsorted_segment_prod_grad(GradContext& c);
void unsorted_segment_extreme_grad(GradContext& c);

// Of SparseSegmentSum, Mean and SqrtN; `grad_op` is SparseSegmentSumGrad and so on. With sparse_gradient: of the rows
// that were used.
GradFn sparse_segment_grad(const char* grad_op);

}  // namespace tutti::internal

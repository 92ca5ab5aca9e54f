// Gradients of ops on sparse tensors.
#pragma once

#include "tutti/graph/gradients.h"

namespace tutti::internal {

void sparse_fill_empty_rows_gradient(GradContext& c);
void sparse_reorder_grad(GradContext& c);
void sparse_slice_gradient(GradContext& c);
void sparse_add_gradient(GradContext& c);
void sparse_reduce_sum_grad(GradContext& c);
void sparse_tensor_dense_add_grad(GradContext& c);
void sparse_dense_multiply_grad(GradContext& c);
void sparse_dense_divide_grad(GradContext& c);
void sparse_softmax_grad(GradContext& c);

}  // namespace tutti::internal

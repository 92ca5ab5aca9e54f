// Gradients of the array ops.
#pragma once

#include "tutti/graph/gradients.h"

namespace tutti::internal {

void pass_through_grad(GradContext& c);  // every input gets its output's gradient
void check_numerics_grad(GradContext& c);
void prevent_gradient_grad(GradContext& c);

void reshape_like_input_grad(GradContext& c);  // Reshape, ExpandDims, Squeeze
void transpose_grad(GradContext& c);
void conjugate_transpose_grad(GradContext& c);
void concat_grad(GradContext& c);
void concat_v2_grad(GradContext& c);
void pack_grad(GradContext& c);
void unpack_grad(GradContext& c);
void split_grad(GradContext& c);
void split_v_grad(GradContext& c);
void slice_grad(GradContext& c);
void strided_slice_gradient(GradContext& c);
void strided_slice_grad_gradient(GradContext& c);
void strided_slice_update_grad(GradContext& c);
void tile_grad(GradContext& c);
void fill_grad(GradContext& c);
void broadcast_to_grad(GradContext& c);
void gather_grad(GradContext& c);
// Of a gather of rows from batches of tables, `params_shape` being [batch_dims dimensions, rows, ...]: the gradients of
// equal rows added up, with that shape.
Output batched_rows_sum(Output grad, Output indices, Output params_shape, std::int64_t batch_dims);
// The attribute, counted from the front.
std::int64_t batch_dims_of(GradContext& c);
void gather_v2_grad(GradContext& c);
void gather_nd_grad(GradContext& c);
void scatter_nd_grad(GradContext& c);
void dynamic_partition_grad(GradContext& c);
void dynamic_stitch_grad(GradContext& c);
void pad_grad(GradContext& c);
void reverse_grad(GradContext& c);
void unsorted_segment_sum_grad(GradContext& c);
void segment_sum_grad(GradContext& c);
void cumsum_grad(GradContext& c);
void cumprod_grad(GradContext& c);
void sparse_to_dense_grad(GradContext& c);

// The gradient of the rows that a gather along the first dimension took from a table of this shape.
IndexedSlices gathered_rows(Output grad, Output indices, Output params_shape, const PartialShape& known_shape);
// x's shape: a constant where it is known.
Output shape_value(Output x, DType dtype = DType::kInt32);

}  // namespace tutti::internal

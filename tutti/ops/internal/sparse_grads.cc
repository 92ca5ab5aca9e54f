#include "tutti/ops/internal/sparse_grads.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti::internal {

void sparse_fill_empty_rows_gradient(GradContext& c) {
  Node* node = add_op(c.graph(), "SparseFillEmptyRowsGrad", {c.output(3), c.grad(1)});
  c.set(1, node->output(0));
  c.set(3, node->output(1));
}

void sparse_reorder_grad(GradContext& c) {
  Graph& graph = c.graph();
  // Where each entry went, found by reordering their numbers.
  Output count = strided_slice(shape_of(c.input(0)), {0}, {1}, {1}, {.shrink_axis_mask = 1});
  Output numbers = range(constant(graph, 0, DType::kInt32), count, constant(graph, 1, DType::kInt32));
  Node* reordered = add_op(graph, "SparseReorder", {c.input(0), numbers, c.input(2)});
  c.set(1, gather(c.grad(1), op1("InvertPermutation", {reordered->output(1)})));
}

void sparse_slice_gradient(GradContext& c) {
  c.set(1, op1("SparseSliceGrad", {c.grad(1), c.input(0), c.input(3), c.output(0)}));
}

void sparse_add_gradient(GradContext& c) {
  Node* node = add_op(c.graph(), "SparseAddGrad", {c.grad(1), c.input(0), c.input(3), c.output(0)});
  c.set(1, node->output(0));
  c.set(4, node->output(1));
}

namespace {

// The sizes `shape` (int64) with those of the axes in `axes` set to 1.
Output reduced_sizes(Output shape, Output axes) {
  Graph& graph = shape.graph();
  Output dims = cast(shape, DType::kInt32);
  Output count = size(dims);
  Output numbers = range(constant(graph, 0, DType::kInt32), count, constant(graph, 1, DType::kInt32));
  Output places = op1("FloorMod", {op1("Add", {axes, count}), count});
  Output flat = reshape(places, {-1});
  return op1("DynamicStitch", {numbers, flat, dims, ones_like(flat)}, {{"N", std::int64_t{2}}});
}

}  // namespace

void sparse_reduce_sum_grad(GradContext& c) {
  Output shape = c.input(2);
  Output kept = reduced_sizes(shape, c.input(3));
  Output grad = reshape(c.grad(), Ints(kept));
  // Reduced dimensions are divided by their size: every index becomes 0.
  Output scale = floordiv(shape, cast(kept, DType::kInt64));
  c.set(1, gather_nd(grad, floordiv(c.input(0), scale)));
}

void sparse_tensor_dense_add_grad(GradContext& c) {
  if (c.needs(1)) c.set(1, gather_nd(c.grad(), c.input(0)));
  c.set(3, c.grad());
}

namespace {

// What the entries of a sparse tensor met in a dense one that was broadcast.
struct DensePartners {
  Output indices, values;
};

DensePartners dense_partners(GradContext& c) {
  Graph& graph = c.graph();
  Output indices = c.input(0), shape = c.input(2), dense = c.input(3);
  Output dense_shape = shape_of(dense, DType::kInt64);
  Output added = reshape(op1("Sub", {size(shape), size(dense_shape)}), {1});
  Output ones = fill(Ints(added), constant(graph, 1, DType::kInt64));
  Output scale = floordiv(shape, concat({ones, dense_shape}, 0));
  Output begin = concat({constant(graph, Tensor::vector<std::int32_t>({0})), added}, 0);
  Output places = slice(floordiv(indices, scale), Ints(begin), {-1, -1});
  return {places, gather_nd(dense, places)};
}

// The gradient of the dense operand: what its entries got, added up.
Output scattered(GradContext& c, const DensePartners& partners, Output values) {
  Output dense = c.input(3);
  return op1("SparseTensorDenseAdd", {partners.indices, values, shape_of(dense, DType::kInt64), zeros_like(dense)});
}

}  // namespace

void sparse_dense_multiply_grad(GradContext& c) {
  const DensePartners partners = dense_partners(c);
  if (c.needs(1)) c.set(1, mul(c.grad(), partners.values));
  if (c.needs(3)) c.set(3, scattered(c, partners, mul(c.grad(), c.input(1))));
}

void sparse_dense_divide_grad(GradContext& c) {
  const DensePartners partners = dense_partners(c);
  if (c.needs(1)) c.set(1, div(c.grad(), partners.values));
  if (c.needs(3)) {
    c.set(3, scattered(c, partners, mul(c.grad(), div(neg(c.input(1)), square(partners.values)))));
  }
}

void sparse_softmax_grad(GradContext& c) {
  Output indices = c.input(0), shape = c.input(2), y = c.output(0), grad = c.grad();
  Output last = constant(c.graph(), Tensor::vector<std::int32_t>({-1}));
  Output sums = op1("SparseReduceSum", {indices, mul(y, grad), shape, last}, {{"keep_dims", true}});
  c.set(1, mul(op1("SparseDenseCwiseAdd", {indices, grad, shape, neg(sums)}), y));
}

}  // namespace tutti::internal

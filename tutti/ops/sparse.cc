#include "tutti/ops/sparse.h"

#include "tutti/ops/builders.h"

namespace tutti {

SparseTensor sparse_placeholder(Graph& graph, DType dtype, const PartialShape& shape, const std::string& name) {
  ScopeGuard scope = graph.name_scope(name);
  const std::int64_t rank = shape.has_rank() ? shape.rank() : kUnknownDim;
  return {placeholder(graph, DType::kInt64, {kUnknownDim, rank}, "indices"),
          placeholder(graph, dtype, {kUnknownDim}, "values"), placeholder(graph, DType::kInt64, {rank}, "shape")};
}

SparseTensor sparse_reorder(const SparseTensor& x, const std::string& name) {
  Node* node = add_op(x.values.graph(), "SparseReorder", {x.indices, x.values, x.dense_shape}, {}, name);
  return {node->output(0), node->output(1), x.dense_shape};
}

SparseTensor sparse_reshape(const SparseTensor& x, const Ints& shape, const std::string& name) {
  Graph& graph = x.values.graph();
  Output sizes = shape.in(graph);
  if (sizes.dtype() != DType::kInt64) sizes = op1("Cast", {sizes}, {{"DstT", DType::kInt64}});
  Node* node = add_op(graph, "SparseReshape", {x.indices, x.dense_shape, sizes}, {}, name);
  return {node->output(0), x.values, node->output(1)};
}

SparseTensor sparse_retain(const SparseTensor& x, Output keep, const std::string& name) {
  ScopeGuard scope = x.values.graph().name_scope(name);
  Output kept = reshape(op1("Where", {keep}), {-1});
  return {gather(x.indices, kept), gather(x.values, kept), identity(x.dense_shape)};
}

FilledRows sparse_fill_empty_rows(const SparseTensor& x, Output default_value, const std::string& name) {
  Node* node =
      add_op(x.values.graph(), "SparseFillEmptyRows", {x.indices, x.values, x.dense_shape, default_value}, {}, name);
  return {{node->output(0), node->output(1), x.dense_shape}, node->output(2)};
}

Output sparse_to_dense(const SparseTensor& x, const std::string& name) {
  Graph& graph = x.values.graph();
  Output zero = x.values.dtype() == DType::kString ? constant(graph, Tensor::scalar(std::string()))
                                                   : constant(graph, 0, x.values.dtype());
  return op1("SparseToDense", {x.indices, x.dense_shape, x.values, zero}, {}, name);
}

Output sparse_dense_matmul(const SparseTensor& x, Output dense, const std::string& name) {
  return op1("SparseTensorDenseMatMul", {x.indices, x.values, x.dense_shape, dense}, {}, name);
}

}  // namespace tutti

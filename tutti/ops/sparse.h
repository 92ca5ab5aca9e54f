// Builders of sparse tensors in coordinates. They throw Error.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti {

// indices: int64 [entries, rank]; values: [entries]; dense_shape: int64 [rank].
struct SparseTensor {
  Output indices;
  Output values;
  Output dense_shape;
};

// Three placeholders: `name`/indices, `name`/values, `name`/shape. The rank is that of `shape`, where it has one.
SparseTensor sparse_placeholder(Graph& graph, DType dtype, const PartialShape& shape = {},
                                const std::string& name = "sparse");
// In the order of the indices, which many functions want.
SparseTensor sparse_reorder(const SparseTensor& x, const std::string& name = "");
// One dimension may be -1: what the others leave.
SparseTensor sparse_reshape(const SparseTensor& x, const Ints& shape, const std::string& name = "");
// The entries where `keep`, a vector of booleans, is true.
SparseTensor sparse_retain(const SparseTensor& x, Output keep, const std::string& name = "sparse_retain");
// An entry [row, 0, ...] with `default_value` in each row that has none. `empty`: which rows those are.
struct FilledRows {
  SparseTensor filled;
  Output empty;
};
FilledRows sparse_fill_empty_rows(const SparseTensor& x, Output default_value, const std::string& name = "");
// Zeros where there is no entry.
Output sparse_to_dense(const SparseTensor& x, const std::string& name = "");
// `x` (a matrix) times a dense matrix.
Output sparse_dense_matmul(const SparseTensor& x, Output dense, const std::string& name = "");

}  // namespace tutti

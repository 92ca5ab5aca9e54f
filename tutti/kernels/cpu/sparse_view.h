// Sparse tensors in coordinates, as kernels see them: three inputs that must agree with each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// `count` entries: rows of `rank` indices and one value each, in a tensor of shape `dims`.
struct SparseView {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0;
  int rank = 0;
  const Tensor* values = nullptr;
  DimList dims;

  const std::int64_t* row(std::int64_t i) const { return indices + i * rank; }
};

// kInvalidArgument unless indices (int64) are a matrix, values and shape vectors, and their sizes agree. The tensors
// must outlive the view. Neither the bounds of indices nor their order are looked at.
Result<SparseView> read_sparse(const Tensor& indices, const Tensor& values, const Tensor& shape);
// The same of inputs `first`, `first` + 1 and `first` + 2.
Result<SparseView> read_sparse(KernelContext& ctx, int first);
// The same of indices without values.
Result<SparseView> read_sparse_indices(const Tensor& indices, const Tensor& shape);
// The dense shape; kInvalidArgument when it has a negative dimension or too many elements.
Result<Shape> dense_shape(const SparseView& view);
// kInvalidArgument, with the entry, unless 0 <= index < dimension everywhere.
Status check_sparse_bounds(const SparseView& view);

// Negative, zero or positive as row a comes before b, is the same, or comes after, the last index changing fastest.
inline int compare_rows(const std::int64_t* a, const std::int64_t* b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

// The entries in the order of their indices, equal ones as they came.
std::vector<std::int64_t> sorted_entries(const SparseView& view);

// Step memory for a list of `rows` rows of indices.
Result<Tensor*> allocate_index_rows(KernelContext& ctx, int output, std::int64_t rows, int rank);
// A vector of int64 as an output.
Status set_int64_vector(KernelContext& ctx, int output, std::span<const std::int64_t> values);
// to[i] = from[order[i]]; to has as many elements as `order`, of from's type.
void pick_elements(const Tensor& from, std::span<const std::int64_t> order, Tensor& to);

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/sparse_to_dense.h"

#include <string>
#include <vector>

#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

// Coordinates as rows of a matrix; a vector has one a row, a scalar is one row of one.
struct SparseRows {
  const Tensor& indices;
  std::int64_t rows;
  std::int64_t depth;

  std::int64_t at(std::int64_t row, std::int64_t d) const {
    return index_at(indices.raw(), indices.dtype(), row * depth + d);
  }
  // "indices[3] = [0,7]"
  std::string describe(std::int64_t row) const {
    std::string text = str_cat("indices[", row, "] = [");
    for (std::int64_t d = 0; d < depth; ++d) text += str_cat(d > 0 ? "," : "", at(row, d));
    return text + "]";
  }
  // Less than 0, 0 or more: how a row compares with the one before it.
  int compare_with_previous(std::int64_t row) const {
    for (std::int64_t d = 0; d < depth; ++d) {
      if (at(row, d) != at(row - 1, d)) return at(row, d) < at(row - 1, d) ? -1 : 1;
    }
    return 0;
  }
};

Status check_order(const SparseRows& c) {
  for (std::int64_t row = 1; row < c.rows; ++row) {
    const int order = c.compare_with_previous(row);
    if (order < 0) {
      return invalid_argument(c.describe(row),
                              " is out of order. Many sparse ops require sorted indices.\n"
                              "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n");
    }
    if (order == 0) return invalid_argument(c.describe(row), " is repeated");
  }
  return {};
}

// The element that each row of coordinates means.
Result<std::vector<std::int64_t>> offsets_of(const SparseRows& c, const Shape& shape) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(c.rows));
  for (std::int64_t row = 0; row < c.rows; ++row) {
    std::int64_t offset = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      const std::int64_t index = c.at(row, d);
      if (index < 0 || index >= shape.dim(d)) {
        return invalid_argument(c.describe(row), " is out of bounds: need 0 <= index < ", shape);
      }
      offset = offset * shape.dim(d) + index;
    }
    offsets[static_cast<std::size_t>(row)] = offset;
  }
  return offsets;
}

class SparseToDense : public Kernel {
 public:
  explicit SparseToDense(const KernelInit& init) : validate_(init.attr<bool>("validate_indices")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor &indices = ctx.input(0), &values = ctx.input(2), &fill = ctx.input(3);
    if (indices.rank() > 2) {
      return invalid_argument("sparse_indices should be a scalar, vector, or matrix, got shape ", indices.shape());
    }
    const SparseRows c{indices, indices.rank() > 0 ? indices.dim(0) : 1, indices.rank() > 1 ? indices.dim(1) : 1};
    if (ctx.input(1).rank() != 1) {
      return invalid_argument("output_shape must be rank 1, got shape ", ctx.input(1).shape());
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(1), "output_shape"));
    if (shape.rank() != c.depth) {
      return invalid_argument("output_shape has incorrect number of elements: ", shape.rank(), " should be: ", c.depth);
    }
    if (values.rank() > 1 || (values.rank() == 1 && values.dim(0) != c.rows)) {
      return invalid_argument("sparse_values has incorrect shape ", values.shape(), ", should be [] or [", c.rows, "]");
    }
    if (fill.rank() != 0) return invalid_argument("default_value should be a scalar, got shape ", fill.shape());
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::int64_t> offsets, offsets_of(c, shape));
    if (validate_) TUTTI_RETURN_IF_ERROR(check_order(c));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const DType dtype = out->dtype();
    TUTTI_RETURN_IF_ERROR(fill_cancellable(ctx, *out, fill.raw()));
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto from = static_cast<std::int64_t>(values.rank() == 0 ? 0 : i);
      copy_elements(dtype, at_element(dtype, out->raw(), offsets[i]), at_element(dtype, values.raw(), from), 1);
    }
    return {};
  }

 private:
  const bool validate_;
};

}  // namespace

KernelFactory sparse_to_dense_kernel() { return kernel_of<SparseToDense>(); }

}  // namespace tutti::cpu

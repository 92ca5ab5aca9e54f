// Bands and diagonals of matrices, and of tensors as maps between their halves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Which diagonals of a matrix: [lower, upper], counted from the main one, those above it positive.
struct DiagonalRange {
  std::int64_t lower = 0;
  std::int64_t upper = 0;

  // Of one value or two, a scalar or a vector.
  static Result<DiagonalRange> read(const Tensor& k);
  std::int64_t count() const { return upper - lower + 1; }
  // The length of the longest of them in a matrix of this size. REQUIRES: check() has no complaint.
  std::int64_t length(std::int64_t rows, std::int64_t columns) const {
    return std::min(rows + std::min<std::int64_t>(upper, 0), columns - std::max<std::int64_t>(lower, 0));
  }
  // kInvalidArgument unless each of them crosses a matrix of this size.
  Status check(std::int64_t rows, std::int64_t columns) const;
};

// The matrix that diagonals make, whose size may be told (-1: not), as by MatrixDiagV2.
struct MatrixSize {
  std::int64_t rows = -1;
  std::int64_t columns = -1;
};
Result<MatrixSize> matrix_of_diagonals(const DiagonalRange& range, std::int64_t length, const MatrixSize& told);

// Inputs: matrices, num_lower, num_upper.
Status matrix_band_part(KernelContext& ctx);
// Diagonals shorter than the longest lie at the left or right end of their rows: attribute "align" (where there is one:
// superdiagonals then subdiagonals; else both left). Further inputs as the ops have them: k, num_rows, num_cols,
// padding_value.
KernelFactory matrix_diag_kernel();
KernelFactory matrix_diag_part_kernel();
KernelFactory matrix_set_diag_kernel();
// A tensor of twice the dimensions, and back.
Status diag(KernelContext& ctx);
Status diag_part(KernelContext& ctx);

}  // namespace tutti::cpu

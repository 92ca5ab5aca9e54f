// Builders of products and decompositions of matrices, as TensorFlow's tf.linalg has them. Where a value has more than
// two dimensions, the last two are those of matrices. They throw Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// Sums of products along named dimensions, of one value or two: einsum("...ij,jk->...ik", {x, w}).
Output einsum(const std::string& equation, const std::vector<Output>& inputs, const std::string& name = "");

struct BatchMatMulOptions {
  bool adj_x = false;  // the adjoint of x
  bool adj_y = false;
};
// Products of matrices side by side; dimensions before the last two are broadcast.
Output batch_matmul(Output x, Output y, const BatchMatMulOptions& options = {}, const std::string& name = "");

// Zeroes what lies more than `lower` diagonals below the main one or `upper` above it; negative: keeps all of them.
Output matrix_band_part(Output x, std::int64_t lower, std::int64_t upper, const std::string& name = "");
Output matrix_diag(Output diagonal, const std::string& name = "");
Output matrix_diag_part(Output x, const std::string& name = "");
Output matrix_set_diag(Output x, Output diagonal, const std::string& name = "");

Output cholesky(Output x, const std::string& name = "");
Output matrix_inverse(Output x, const std::string& name = "");
Output matrix_determinant(Output x, const std::string& name = "");
Output matrix_solve(Output matrix, Output rhs, const std::string& name = "");
Output matrix_triangular_solve(Output matrix, Output rhs, bool lower = true, const std::string& name = "");

}  // namespace tutti

#include "tutti/ops/linalg.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti {

Output einsum(const std::string& equation, const std::vector<Output>& inputs, const std::string& name) {
  return op1("Einsum", inputs, {{"equation", equation}}, name);
}

Output batch_matmul(Output x, Output y, const BatchMatMulOptions& options, const std::string& name) {
  return op1("BatchMatMulV2", {x, y}, {{"adj_x", options.adj_x}, {"adj_y", options.adj_y}}, name);
}

Output matrix_band_part(Output x, std::int64_t lower, std::int64_t upper, const std::string& name) {
  const auto number = [&](std::int64_t value) { return constant(x.graph(), value, DType::kInt64); };
  return op1("MatrixBandPart", {x, number(lower), number(upper)}, {}, name);
}

Output matrix_diag(Output diagonal, const std::string& name) { return op1("MatrixDiag", {diagonal}, {}, name); }
Output matrix_diag_part(Output x, const std::string& name) { return op1("MatrixDiagPart", {x}, {}, name); }
Output matrix_set_diag(Output x, Output diagonal, const std::string& name) {
  return op1("MatrixSetDiag", {x, diagonal}, {}, name);
}

Output cholesky(Output x, const std::string& name) { return op1("Cholesky", {x}, {}, name); }
Output matrix_inverse(Output x, const std::string& name) { return op1("MatrixInverse", {x}, {}, name); }
Output matrix_determinant(Output x, const std::string& name) { return op1("MatrixDeterminant", {x}, {}, name); }
Output matrix_solve(Output matrix, Output rhs, const std::string& name) {
  return op1("MatrixSolve", {matrix, rhs}, {}, name);
}
Output matrix_triangular_solve(Output matrix, Output rhs, bool lower, const std::string& name) {
  return op1("MatrixTriangularSolve", {matrix, rhs}, {{"lower", lower}}, name);
}

}  // namespace tutti

// Rows of matrix decompositions.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/linalg.h"
#include "tutti/kernels/cpu/qr.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

constexpr DTypeSet kMatrixTypes = kComplexes | DTypeSet{DType::kFloat, DType::kDouble};
constexpr DTypeSet kMatrixTypesAndHalf = kMatrixTypes | DTypeSet{DType::kHalf};

// --- Shapes. ---

// Input i with its last two dimensions made to agree.
Result<PartialShape> square_input(ShapeContext& c, int i) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.with_rank_at_least(i, 2));
  if (!shape.has_rank()) return shape;
  const int last = shape.rank() - 1;
  TUTTI_ASSIGN_OR_RETURN(const PartialShape side, PartialShape{shape.dim(last)}.merge({shape.dim(last - 1)}));
  shape.set_dim(last, side.dim(0));
  shape.set_dim(last - 1, side.dim(0));
  return shape;
}

PartialShape leading(const PartialShape& shape) {
  if (!shape.has_rank()) return {};
  return PartialShape(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end() - 2));
}

Status square_unchanged_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, square_input(c, 0));
  c.set_output(0, std::move(shape));
  return {};
}

Status determinant_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape shape, square_input(c, 0));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, leading(shape));
  return {};
}

Status solve_shape(ShapeContext& c, bool broadcasts) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape matrix, square_input(c, 0));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape rhs, c.with_rank_at_least(1, 2));
  if (!matrix.has_rank() || !rhs.has_rank()) return {};
  TUTTI_ASSIGN_OR_RETURN(const PartialShape rows,
                         PartialShape{matrix.dim(matrix.rank() - 1)}.merge({rhs.dim(rhs.rank() - 2)}));
  Result<PartialShape> batch =
      broadcasts ? broadcast_shapes(leading(matrix), leading(rhs)) : leading(matrix).merge(leading(rhs));
  if (!batch.ok()) return batch.status();
  if (!batch->has_rank()) return {};
  batch->append(rows.dim(0));
  batch->append(rhs.dim(rhs.rank() - 1));
  c.set_output(0, *std::move(batch));
  return {};
}

Status qr_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape in, c.with_rank_at_least(0, 2));
  if (!in.has_rank()) return {};
  const int last = in.rank() - 1;
  const std::int64_t m = in.dim(last - 1), n = in.dim(last);
  const std::int64_t least = m == kUnknownDim || n == kUnknownDim ? kUnknownDim : std::min(m, n);
  const bool full = c.attr<bool>("full_matrices");
  PartialShape q = in, r = in;
  q.set_dim(last, full ? m : least);
  r.set_dim(last - 1, full ? m : least);
  c.set_output(0, std::move(q));
  c.set_output(1, std::move(r));
  return {};
}

// --- Gradients. ---

Output product_of(Output x, Output y, bool adj_x, bool adj_y) {
  return op1("BatchMatMulV2", {x, y}, {{"adj_x", adj_x}, {"adj_y", adj_y}});
}

Output int_scalar_of(Graph& graph, std::int64_t value) { return constant(graph, value, DType::kInt32); }

Output lower_part(Output x) {
  return op1("MatrixBandPart", {x, int_scalar_of(x.graph(), -1), int_scalar_of(x.graph(), 0)});
}
Output upper_part(Output x) {
  return op1("MatrixBandPart", {x, int_scalar_of(x.graph(), 0), int_scalar_of(x.graph(), -1)});
}

// The last two dimensions swapped, and conjugated.
Output adjoint_of(Output x) {
  Graph& graph = x.graph();
  Output count = rank(x), two = int_scalar_of(graph, 2), one = int_scalar_of(graph, 1);
  Output outer = range(int_scalar_of(graph, 0), sub(count, two), one);
  Output perm = concat({outer, stack({sub(count, one), sub(count, two)})}, 0);
  return op1("ConjugateTranspose", {x, perm});
}

// With L of the input: half the Hermitian part of L^-H (the lower part of L^H dL, its diagonal halved) L^-1.
void cholesky_grad(GradContext& g) {
  Output l = g.output(0);
  const auto solved = [&](Output rhs) {
    return op1("MatrixTriangularSolve", {l, rhs}, {{"lower", true}, {"adjoint", true}});
  };
  Output middle = product_of(l, g.grad(), true, false);
  Output diagonal = op1("MatrixDiagPart", {middle});
  middle = lower_part(op1("MatrixSetDiag", {middle, mul(diagonal, scalar_like(diagonal, 0.5))}));
  Output x = adjoint_of(solved(adjoint_of(solved(middle))));
  g.set(0, mul(add(x, adjoint_of(x)), scalar_like(x, 0.5)));
}

void matrix_inverse_grad(GradContext& g) {
  const bool adjoint = g.attr<bool>("adjoint");
  Output inverse = g.output(0);
  g.set(0, neg(product_of(inverse, product_of(g.grad(), inverse, adjoint, !adjoint), !adjoint, false)));
}

// `scale` for each matrix, times the inverse of its adjoint.
Output scaled_inverse(Output matrices, Output scale) {
  Output column = expand_dims(expand_dims(scale, -1), -1);
  return mul(column, op1("MatrixInverse", {matrices}, {{"adjoint", true}}));
}

void determinant_grad(GradContext& g) { g.set(0, scaled_inverse(g.input(0), mul(g.grad(), g.output(0)))); }
void log_determinant_grad(GradContext& g) { g.set(0, scaled_inverse(g.input(0), g.grad(1))); }

void matrix_solve_grad(GradContext& g) {
  const bool adjoint = g.attr<bool>("adjoint");
  Output x = g.output(0);
  Output rhs = op1("MatrixSolve", {g.input(0), g.grad()}, {{"adjoint", !adjoint}});
  if (g.needs(0)) g.set(0, neg(adjoint ? product_of(x, rhs, false, true) : product_of(rhs, x, false, true)));
  g.set(1, rhs);
}

// Sums over the batch dimensions along which `x` was repeated.
Output batch_unbroadcast(Output grad, Output x, Output other) {
  const auto batch = [](Output v) { return strided_slice(shape_of(v), {0}, {-2}, {1}); };
  Output axes = op1("BroadcastGradientArgs", {batch(x), batch(other)});
  return reshape(reduce_sum(grad, Ints(axes)), Ints(shape_of(x)));
}

void triangular_solve_grad(GradContext& g) {
  const bool adjoint = g.attr<bool>("adjoint"), lower = g.attr<bool>("lower");
  Output a = g.input(0), b = g.input(1), x = g.output(0);
  Output rhs = op1("MatrixTriangularSolve", {a, g.grad()}, {{"lower", lower}, {"adjoint", !adjoint}});
  if (g.needs(0)) {
    Output matrix = neg(adjoint ? product_of(x, rhs, false, true) : product_of(rhs, x, false, true));
    g.set(0, batch_unbroadcast(lower ? lower_part(matrix) : upper_part(matrix), a, b));
  }
  if (g.needs(1)) g.set(1, batch_unbroadcast(rhs, b, a));
}

// x R^-H, of an upper triangle R.
Output divided_by_adjoint(Output x, Output r) {
  return adjoint_of(op1("MatrixTriangularSolve", {r, adjoint_of(x)}, {{"lower", false}, {"adjoint", false}}));
}

// Of A = QR with at least as many rows as columns. With L the lower part of (Q^H dQ - dQ^H Q) + (R dR^H - dR R^H):
// Q (dR + L R^-H) + (dQ - Q Q^H dQ) R^-H. The diagonal of R is real, so what would turn it is taken away.
Output tall_qr_grad(Output q, Output r, Output dq, Output dr) {
  Output qdq = product_of(q, dq, true, false), rdr = product_of(r, dr, false, true);
  Output turn = lower_part(add(sub(qdq, adjoint_of(qdq)), sub(rdr, adjoint_of(rdr))));
  Output inside = product_of(q, add(dr, divided_by_adjoint(turn, r)), false, false);
  Output outside = divided_by_adjoint(sub(dq, product_of(q, qdq, false, false)), r);
  Output result = add(inside, outside);
  if (!is_complex(q.dtype())) return result;
  const DType real = q.dtype() == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  Output angles = op1("Imag", {op1("MatrixDiagPart", {sub(rdr, adjoint_of(qdq))})}, {{"Tout", real}});
  Output phases = op1("MatrixDiag", {op1("Complex", {zeros_like(angles), neg(angles)}, {{"Tout", q.dtype()}})});
  return add(result, divided_by_adjoint(product_of(q, phases, false, false), r));
}

// Of a wide A = [X Y], R is [U V]: the first rows-many columns are a decomposition of X, and Y = Q V. Of another Y and
// V are empty.
void qr_grad(GradContext& g) {
  Output q = g.output(0), r = g.output(1), dq = g.grad(0), dr = g.grad(1);
  const PartialShape& outer = q.shape();
  const PartialShape& inner = r.shape();
  if (outer.has_rank() && inner.has_rank()) {
    const std::int64_t rows = outer.dim(outer.rank() - 2), columns = inner.dim(inner.rank() - 1);
    const bool tall = columns != kUnknownDim && rows >= columns;
    if (tall && rows > columns && outer.dim(outer.rank() - 1) == rows) {
      throw_error(
          unimplemented("Qr: no gradient with full_matrices for more rows than columns: ", rows, " and ", columns));
    }
    if (tall) return g.set(0, tall_qr_grad(q, r, dq, dr));
  }
  const auto size = [](Output x, std::int64_t dim) {
    return strided_slice(shape_of(x), {dim}, {0}, {1}, {.end_mask = 1, .shrink_axis_mask = 1});
  };
  Output least = op1("Minimum", {size(q, -2), size(r, -1)});
  const Ints cut(stack({int_scalar_of(g.graph(), 0), least}));
  const auto first = [&](Output x) { return strided_slice(x, {0, 0}, cut, {1, 1}, {.ellipsis_mask = 1}); };
  const auto rest = [&](Output x) {
    return strided_slice(x, cut, {0, 0}, {1, 1}, {.end_mask = 2, .ellipsis_mask = 1});
  };
  Output dv = rest(dr);
  Output dx = tall_qr_grad(q, first(r), add(dq, product_of(rest(g.input(0)), dv, false, true)), first(dr));
  g.set(0, concat({dx, product_of(q, dv, false, false)}, -1));
}

}  // namespace

void add_linalg_ops(OpTable& ops) {
  ops.add({.name = "Qr",
           .signature = "input: T -> q: T, r: T",
           .attrs = "full_matrices: bool = false; T: type",
           .types = DTypeSet{DType::kDouble, DType::kFloat, DType::kHalf} | kComplexes,
           .shape = qr_shape,
           .grad = qr_grad,
           .kernels = {TUTTI_CPU(cpu::qr_kernel())}});
  ops.add({.name = "Cholesky",
           .signature = "input: T -> output: T",
           .attrs = "T: type",
           .types = kMatrixTypesAndHalf,
           .shape = square_unchanged_shape,
           .grad = cholesky_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_from(cpu::cholesky), kMatrixTypes)}});
  ops.add({.name = "MatrixInverse",
           .signature = "input: T -> output: T",
           .attrs = "adjoint: bool = false; T: type",
           .types = kMatrixTypesAndHalf,
           .shape = square_unchanged_shape,
           .grad = matrix_inverse_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::matrix_inverse_kernel())}});
  ops.add({.name = "MatrixDeterminant",
           .signature = "input: T -> output: T",
           .attrs = "T: type",
           .types = kMatrixTypesAndHalf,
           .shape = determinant_shape,
           .grad = determinant_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_from(cpu::matrix_determinant), kMatrixTypes)}});
  ops.add({.name = "LogMatrixDeterminant",
           .signature = "input: T -> sign: T, log_abs_determinant: T",
           .attrs = "T: type",
           .types = kMatrixTypesAndHalf,
           .shape = determinant_shape,
           .grad = log_determinant_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_from(cpu::log_matrix_determinant), kMatrixTypes)}});
  ops.add({.name = "MatrixSolve",
           .signature = "matrix: T, rhs: T -> output: T",
           .attrs = "adjoint: bool = false; T: type",
           .types = kMatrixTypesAndHalf,
           .shape = [](ShapeContext& c) { return solve_shape(c, false); },
           .grad = matrix_solve_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::matrix_solve_kernel(), kMatrixTypes)}});
  ops.add({.name = "MatrixTriangularSolve",
           .signature = "matrix: T, rhs: T -> output: T",
           .attrs = "lower: bool = true; adjoint: bool = false; T: type",
           .types = kMatrixTypesAndHalf | DTypeSet{DType::kBfloat16},
           .shape = [](ShapeContext& c) { return solve_shape(c, true); },
           .grad = triangular_solve_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::matrix_triangular_solve_kernel(), kMatrixTypes)}});
}

}  // namespace tutti::internal

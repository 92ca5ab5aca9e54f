// Rows of bands and diagonals.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/diagonal.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"

namespace tutti::internal {
namespace {

using cpu::DiagonalRange;

// --- Shapes. ---

// Which diagonals input i names: the main one where there is no such input, nothing where its value is not known.
Result<std::optional<DiagonalRange>> known_range(ShapeContext& c, int i) {
  if (i >= c.num_inputs()) return std::optional<DiagonalRange>(DiagonalRange{});
  const std::optional<Tensor> k = c.constant(i);
  if (!k) return std::optional<DiagonalRange>();
  TUTTI_ASSIGN_OR_RETURN(const DiagonalRange range, DiagonalRange::read(*k));
  return std::optional<DiagonalRange>(range);
}

Result<std::int64_t> known_size(ShapeContext& c, int i) {
  if (i >= c.num_inputs()) return std::int64_t{-1};
  const std::optional<Tensor> value = c.constant(i);
  if (!value) return std::int64_t{-1};
  return cpu::read_scalar_integer(*value, "the size of the matrix");
}

bool is_known_or_absent(ShapeContext& c, int i) { return i >= c.num_inputs() || c.constant(i).has_value(); }

PartialShape batch_and(const PartialShape& shape, int dropped, const std::vector<std::int64_t>& added) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end() - dropped);
  dims.insert(dims.end(), added.begin(), added.end());
  return PartialShape(std::move(dims));
}

Status matrix_diag_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape diagonal, c.with_rank_at_least(0, 1));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<DiagonalRange> range, known_range(c, 1));
  if (!range || !diagonal.has_rank()) return {};
  const int own = range->count() > 1 ? 2 : 1;
  if (diagonal.rank() < own) return invalid_argument("diagonal must be at least ", own, "-dim, got ", diagonal);
  if (own == 2) {
    const std::int64_t count = diagonal.dim(diagonal.rank() - 2);
    if (count != kUnknownDim && count != range->count()) {
      return invalid_argument("The number of diagonals provided in the input does not match the lower_diag_index and ",
                              "upper_diag_index range: ", diagonal, " for ", range->count());
    }
  }
  cpu::MatrixSize size;
  TUTTI_ASSIGN_OR_RETURN(size.rows, known_size(c, 2));
  TUTTI_ASSIGN_OR_RETURN(size.columns, known_size(c, 3));
  const std::int64_t length = diagonal.dim(diagonal.rank() - 1);
  if (length == kUnknownDim || !is_known_or_absent(c, 2) || !is_known_or_absent(c, 3)) {
    c.set_output(0, batch_and(diagonal, own, {kUnknownDim, kUnknownDim}));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(size, cpu::matrix_of_diagonals(*range, length, size));
  c.set_output(0, batch_and(diagonal, own, {size.rows, size.columns}));
  return {};
}

// The shape of the diagonals of `matrices`, as far as it is known.
Result<PartialShape> diagonals_shape(const PartialShape& matrices, const std::optional<DiagonalRange>& range) {
  if (!matrices.has_rank() || !range) return PartialShape();
  const std::int64_t rows = matrices.dim(matrices.rank() - 2), columns = matrices.dim(matrices.rank() - 1);
  std::int64_t length = kUnknownDim;
  if (rows != kUnknownDim && columns != kUnknownDim) {
    TUTTI_RETURN_IF_ERROR(range->check(rows, columns));
    length = range->length(rows, columns);
  }
  if (range->count() > 1) return batch_and(matrices, 2, {range->count(), length});
  return batch_and(matrices, 2, {length});
}

Status matrix_diag_part_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape input, c.with_rank_at_least(0, 2));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<DiagonalRange> range, known_range(c, 1));
  TUTTI_ASSIGN_OR_RETURN(PartialShape output, diagonals_shape(input, range));
  c.set_output(0, std::move(output));
  return {};
}

Status matrix_set_diag_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape input, c.with_rank_at_least(0, 2));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape diagonal, c.with_rank_at_least(1, 1));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<DiagonalRange> range, known_range(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape expected, diagonals_shape(input, range));
  TUTTI_RETURN_IF_ERROR(expected.merge(diagonal).status());
  c.set_output(0, input);
  return {};
}

Status matrices_unchanged_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank_at_least(0, 2));
  c.set_output(0, std::move(input));
  return {};
}

Status diag_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape diagonal, c.with_rank_at_least(0, 1));
  if (!diagonal.has_rank()) return {};
  std::vector<std::int64_t> dims(diagonal.dims().begin(), diagonal.dims().end());
  dims.insert(dims.end(), diagonal.dims().begin(), diagonal.dims().end());
  TUTTI_ASSIGN_OR_RETURN(PartialShape output, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(output));
  return {};
}

Status diag_part_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  if (input.rank() == 0 || input.rank() % 2 != 0) {
    return invalid_argument("Input must have even and non-zero rank, input rank is ", input.rank());
  }
  const auto half = input.dims().begin() + input.rank() / 2;
  const PartialShape first(std::vector<std::int64_t>(input.dims().begin(), half));
  TUTTI_ASSIGN_OR_RETURN(PartialShape both,
                         first.merge(PartialShape(std::vector<std::int64_t>(half, input.dims().end()))));
  c.set_output(0, std::move(both));
  return {};
}

// --- Gradients. ---

// The way back from diagonals to where they were, and from matrices to their diagonals. `version`: "", "V2" or "V3".
// TensorFlow's gradients of V2 align as V3 does, which is wrong for diagonals of several lengths; these do not.
struct Diagonals {
  std::string version;

  AttrMap attrs(GradContext& g) const {
    if (version != "V3") return {};
    return {{"align", g.attr<std::string>("align")}};
  }
  Output part(GradContext& g, Output matrices, int k) const {
    if (version.empty()) return op1("MatrixDiagPart", {matrices});
    return op1("MatrixDiagPart" + version, {matrices, g.input(k), scalar_like(matrices, 0)}, attrs(g));
  }
  Output set(GradContext& g, Output matrices, Output diagonal, int k) const {
    if (version.empty()) return op1("MatrixSetDiag", {matrices, diagonal});
    return op1("MatrixSetDiag" + version, {matrices, diagonal, g.input(k)}, attrs(g));
  }
};

GradFn matrix_diag_grad(const std::string& version) {
  return [d = Diagonals{version}](GradContext& g) { g.set(0, d.part(g, g.grad(), 1)); };
}

GradFn matrix_diag_part_grad(const std::string& version) {
  return [d = Diagonals{version}](GradContext& g) { g.set(0, d.set(g, zeros_like(g.input(0)), g.grad(), 1)); };
}

GradFn matrix_set_diag_grad(const std::string& version) {
  return [d = Diagonals{version}](GradContext& g) {
    if (g.needs(0)) g.set(0, d.set(g, g.grad(), zeros_like(g.input(1)), 2));
    if (g.needs(1)) g.set(1, d.part(g, g.grad(), 2));
  };
}

void matrix_band_part_grad(GradContext& g) { g.set(0, op1("MatrixBandPart", {g.grad(), g.input(1), g.input(2)})); }
void diag_grad(GradContext& g) { g.set(0, op1("DiagPart", {g.grad()})); }
void diag_part_grad(GradContext& g) { g.set(0, op1("Diag", {g.grad()})); }

}  // namespace

void add_diagonal_ops(OpTable& ops) {
  ops.add({.name = "MatrixBandPart",
           .signature = "input: T, num_lower: Tindex, num_upper: Tindex -> band: T",
           .attrs = "T: type; Tindex: {int32, int64} = int64",
           .shape = matrices_unchanged_shape,
           .grad = matrix_band_part_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::matrix_band_part), kPlain)}});
  for (const std::string version : {"", "V2", "V3"}) {
    const std::string k = version.empty() ? "" : ", k: int32";
    const std::string padding = version.empty() ? "" : ", padding_value: T";
    const std::string attrs =
        version != "V3" ? "T: type"
                        : "T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";
    ops.add({.name = "MatrixDiag" + version,
             .signature = "diagonal: T" + k + (version.empty() ? "" : ", num_rows: int32, num_cols: int32") + padding +
                          " -> output: T",
             .attrs = attrs,
             .shape = matrix_diag_shape,
             .grad = matrix_diag_grad(version),
             .kernels = {TUTTI_CPU(cpu::matrix_diag_kernel(), kPlain)}});
    ops.add({.name = "MatrixDiagPart" + version,
             .signature = "input: T" + k + padding + " -> diagonal: T",
             .attrs = attrs,
             .shape = matrix_diag_part_shape,
             .grad = matrix_diag_part_grad(version),
             .kernels = {TUTTI_CPU(cpu::matrix_diag_part_kernel(), kPlain)}});
    ops.add({.name = "MatrixSetDiag" + version,
             .signature = "input: T, diagonal: T" + k + " -> output: T",
             .attrs = attrs,
             .shape = matrix_set_diag_shape,
             .grad = matrix_set_diag_grad(version),
             .kernels = {TUTTI_CPU(cpu::matrix_set_diag_kernel(), kPlain)}});
  }
  const DTypeSet types = kFloats | kComplexes | kIndexTypes;
  ops.add({.name = "Diag",
           .signature = "diagonal: T -> output: T",
           .attrs = "T: type",
           .types = types,
           .shape = diag_shape,
           .grad = diag_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::diag))}});
  ops.add({.name = "DiagPart",
           .signature = "input: T -> diagonal: T",
           .attrs = "T: type",
           .types = types,
           .shape = diag_part_shape,
           .grad = diag_part_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::diag_part))}});
}

}  // namespace tutti::internal

#include "tutti/kernels/cpu/diagonal.h"

#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

Result<DiagonalRange> DiagonalRange::read(const Tensor& k) {
  if (k.rank() > 1) return invalid_argument("diag_index must be a scalar or vector, received shape: ", k.shape());
  if (k.num_elements() < 1 || k.num_elements() > 2) {
    return invalid_argument("diag_index must have only one or two elements, received ", k.num_elements(), " elements.");
  }
  DimList values;
  TUTTI_RETURN_IF_ERROR(read_dims(k, "diag_index", &values));
  const DiagonalRange range{values[0], values[values.size - 1]};
  if (range.lower > range.upper) {
    return invalid_argument("lower_diag_index must not be larger than upper_diag_index: ", range.lower, " > ",
                            range.upper);
  }
  return range;
}

Status DiagonalRange::check(std::int64_t rows, std::int64_t columns) const {
  const auto crosses = [&](std::int64_t d) { return d == 0 || (-rows < d && d < columns); };
  if (!crosses(lower)) {
    return invalid_argument("lower_diag_index is out of bound: ", lower, " It must be between ", -rows, " and ",
                            columns);
  }
  if (!crosses(upper)) {
    return invalid_argument("upper_diag_index is out of bound: ", upper, " It must be between ", -rows, " and ",
                            columns);
  }
  return {};
}

Result<MatrixSize> matrix_of_diagonals(const DiagonalRange& range, std::int64_t length, const MatrixSize& told) {
  const MatrixSize least{length - std::min<std::int64_t>(range.upper, 0),
                         length + std::max<std::int64_t>(range.lower, 0)};
  MatrixSize size = told;
  if (size.rows != -1 && size.rows < least.rows) return invalid_argument("The number of rows is too small.");
  if (size.columns != -1 && size.columns < least.columns) {
    return invalid_argument("The number of columns is too small.");
  }
  if (size.rows == -1 && size.columns == -1) {
    size.rows = size.columns = std::max(least.rows, least.columns);
  } else if (size.rows == -1) {
    size.rows = least.rows;
  } else if (size.columns == -1) {
    size.columns = least.columns;
  }
  if (size.rows != least.rows && size.columns != least.columns) {
    return invalid_argument("The number of rows or columns is not consistent with the specified d_lower, d_upper, and ",
                            "diagonal.");
  }
  return size;
}

namespace {

// Where the elements of diagonals lie: in matrices of rows x columns, and in blocks of count rows of `length`.
class DiagonalMap {
 public:
  DiagonalMap(const DiagonalRange& range, std::int64_t rows, std::int64_t columns, bool left_above, bool left_below)
      : range_(range),
        rows_(rows),
        columns_(columns),
        length_(range.length(rows, columns)),
        left_above_(left_above),
        left_below_(left_below) {}

  std::int64_t matrix_size() const { return rows_ * columns_; }
  std::int64_t block_size() const { return range_.count() * length_; }

  // One diagonal: `size` elements; the first lies at `in_block` and `in_matrix`, `columns + 1` apart in the latter.
  struct Line {
    std::int64_t size, in_block, in_matrix;
  };
  std::int64_t step() const { return columns_ + 1; }
  std::int64_t lines() const { return range_.count(); }
  Line line(std::int64_t i) const {
    const std::int64_t d = range_.upper - i;
    const std::int64_t size = std::min(rows_ + std::min<std::int64_t>(d, 0), columns_ - std::max<std::int64_t>(d, 0));
    const bool left = (d >= 0 && left_above_) || (d <= 0 && left_below_);
    return {size, i * length_ + (left ? 0 : length_ - size), d >= 0 ? d : -d * columns_};
  }

 private:
  const DiagonalRange range_;
  const std::int64_t rows_, columns_, length_;
  const bool left_above_, left_below_;
};

// Calls fn(batch) for each, on the team's threads.
template <typename Fn>
void for_batches(Team& team, std::int64_t batches, std::int64_t elements, const Fn& fn) {
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, elements));
  parallel_for(team, batches, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) fn(b);
  });
}

// Writes the diagonals of blocks at `from` over those of matrices at `to`.
void write_diagonals(DType dtype, const DiagonalMap& map, std::int64_t batches, const void* from, void* to,
                     Team& team) {
  with_element(dtype, [&]<typename E>(const E&) {
    for_batches(team, batches, map.block_size(), [&](std::int64_t b) {
      const E* block = static_cast<const E*>(from) + b * map.block_size();
      E* matrix = static_cast<E*>(to) + b * map.matrix_size();
      for (std::int64_t i = 0; i < map.lines(); ++i) {
        const DiagonalMap::Line line = map.line(i);
        for (std::int64_t n = 0; n < line.size; ++n) matrix[line.in_matrix + n * map.step()] = block[line.in_block + n];
      }
    });
  });
}

void read_diagonals(DType dtype, const DiagonalMap& map, std::int64_t batches, const void* from, void* to, Team& team) {
  with_element(dtype, [&]<typename E>(const E&) {
    for_batches(team, batches, map.block_size(), [&](std::int64_t b) {
      const E* matrix = static_cast<const E*>(from) + b * map.matrix_size();
      E* block = static_cast<E*>(to) + b * map.block_size();
      for (std::int64_t i = 0; i < map.lines(); ++i) {
        const DiagonalMap::Line line = map.line(i);
        for (std::int64_t n = 0; n < line.size; ++n) block[line.in_block + n] = matrix[line.in_matrix + n * map.step()];
      }
    });
  });
}

// What the three kernels read in the same way.
class DiagonalKernel : public Kernel {
 public:
  explicit DiagonalKernel(const KernelInit& init) {
    const auto align = init.attrs.find("align");
    if (align == init.attrs.end()) return;
    const std::string& text = *align->second.get<std::string>();
    left_above_ = text.starts_with("LEFT");
    left_below_ = text.ends_with("LEFT");
  }

 protected:
  static Result<DiagonalRange> range_at(KernelContext& ctx, int i) {
    if (i >= ctx.num_inputs()) return DiagonalRange{};
    return DiagonalRange::read(ctx.input(i));
  }
  // Input i, or zeros, over all of `to`. `scalar`: a vector of one does not do.
  static Status fill_with(KernelContext& ctx, int i, Tensor& to, bool scalar) {
    if (i >= ctx.num_inputs()) {
      zero_elements(to.dtype(), to.raw(), to.num_elements());
      return {};
    }
    if (ctx.input(i).num_elements() != 1 || (scalar && ctx.input(i).rank() != 0)) {
      return invalid_argument("padding_value must be a scalar, received shape: ", ctx.input(i).shape());
    }
    fill_elements(to.dtype(), to.raw(), ctx.input(i).raw(), to.num_elements());
    return {};
  }
  DiagonalMap map(const DiagonalRange& range, std::int64_t rows, std::int64_t columns) const {
    return DiagonalMap(range, rows, columns, left_above_, left_below_);
  }
  // The dimensions of input 0 without the last `count`.
  static DimList batch_dims(const Tensor& tensor, int count) {
    DimList dims;
    for (int d = 0; d < tensor.rank() - count; ++d) dims.push_back(tensor.dim(d));
    return dims;
  }

 private:
  bool left_above_ = true;
  bool left_below_ = true;
};

class MatrixDiag : public DiagonalKernel {
 public:
  using DiagonalKernel::DiagonalKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& diagonal = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const DiagonalRange range, range_at(ctx, 1));
    MatrixSize told;
    if (ctx.num_inputs() > 2) {
      TUTTI_ASSIGN_OR_RETURN(told.rows, read_scalar_integer(ctx.input(2), "num_rows"));
      TUTTI_ASSIGN_OR_RETURN(told.columns, read_scalar_integer(ctx.input(3), "num_cols"));
    }
    const int own = range.count() > 1 ? 2 : 1;
    if (diagonal.rank() < own) {
      return invalid_argument("diagonal must be at least ", own, "-dim, received shape: ", diagonal.shape());
    }
    if (own == 2 && diagonal.dim(diagonal.rank() - 2) != range.count()) {
      return invalid_argument("The number of diagonals provided in the input does not match the lower_diag_index and ",
                              "upper_diag_index range: ", diagonal.shape(), " for ", range.count());
    }
    TUTTI_ASSIGN_OR_RETURN(const MatrixSize size, matrix_of_diagonals(range, diagonal.dim(diagonal.rank() - 1), told));
    if (diagonal.rank() - own + 2 > kMaxRank) return invalid_argument("diagonal has too many dimensions");
    DimList dims = batch_dims(diagonal, own);
    dims.push_back(size.rows);
    dims.push_back(size.columns);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    TUTTI_RETURN_IF_ERROR(fill_with(ctx, 4, *out, true));
    if (diagonal.num_elements() == 0) return {};
    write_diagonals(out->dtype(), map(range, size.rows, size.columns), elements_before(shape, shape.rank() - 2),
                    diagonal.raw(), out->raw(), ctx.team());
    return {};
  }
};

class MatrixDiagPart : public DiagonalKernel {
 public:
  using DiagonalKernel::DiagonalKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    if (input.rank() < 2) return invalid_argument("input must be at least 2-dim, received shape: ", input.shape());
    TUTTI_ASSIGN_OR_RETURN(const DiagonalRange range, range_at(ctx, 1));
    const std::int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
    TUTTI_RETURN_IF_ERROR(range.check(rows, columns));
    DimList dims = batch_dims(input, 2);
    if (range.count() > 1) dims.push_back(range.count());
    dims.push_back(range.length(rows, columns));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    TUTTI_RETURN_IF_ERROR(fill_with(ctx, 2, *out, false));
    if (out->num_elements() == 0) return {};
    read_diagonals(out->dtype(), map(range, rows, columns), elements_before(input.shape(), input.rank() - 2),
                   input.raw(), out->raw(), ctx.team());
    return {};
  }
};

class MatrixSetDiag : public DiagonalKernel {
 public:
  using DiagonalKernel::DiagonalKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    const Tensor& diagonal = ctx.input(1);
    if (input.rank() < 2) return invalid_argument("input must be at least 2-dim, received shape: ", input.shape());
    TUTTI_ASSIGN_OR_RETURN(const DiagonalRange range, range_at(ctx, 2));
    const std::int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
    TUTTI_RETURN_IF_ERROR(range.check(rows, columns));
    DimList dims = batch_dims(input, 2);
    if (range.count() > 1) dims.push_back(range.count());
    dims.push_back(range.length(rows, columns));
    TUTTI_ASSIGN_OR_RETURN(const Shape expected, Shape::create(dims.span()));
    if (diagonal.shape() != expected) {
      return invalid_argument(
          "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] ",
          "is not equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\n",
          "Input shape: ", input.shape(), "\nDiagonal shape: ", diagonal.shape(),
          "\nExpected diagonal shape: ", expected);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
    if (out->raw() != input.raw()) copy_elements(input.dtype(), out->raw(), input.raw(), input.num_elements());
    if (diagonal.num_elements() == 0 || input.num_elements() == 0) return {};
    write_diagonals(out->dtype(), map(range, rows, columns), elements_before(input.shape(), input.rank() - 2),
                    diagonal.raw(), out->raw(), ctx.team());
    return {};
  }
};

Result<std::int64_t> read_band(const Tensor& tensor, std::string_view what, std::int64_t limit) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t value, read_scalar_integer(tensor, what));
  if (value > limit) {
    return invalid_argument(what, " must be negative or less or equal to the size of the matrix (", limit,
                            ") got: ", value);
  }
  return value < 0 ? limit : value;
}

}  // namespace

KernelFactory matrix_diag_kernel() { return kernel_of<MatrixDiag>(); }
KernelFactory matrix_diag_part_kernel() { return kernel_of<MatrixDiagPart>(); }
KernelFactory matrix_set_diag_kernel() { return kernel_of<MatrixSetDiag>(); }

Status matrix_band_part(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  if (input.rank() < 2) return invalid_argument("input must be at least 2-dim, received shape: ", input.shape());
  const std::int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t lower, read_band(ctx.input(1), "num_lower", rows));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t upper, read_band(ctx.input(2), "num_upper", columns));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
  if (out->num_elements() == 0) return {};
  const bool in_place = out->raw() == input.raw();
  const std::int64_t all_rows = input.num_elements() / columns;
  with_element(input.dtype(), [&]<typename E>(const E&) {
    const E* from = static_cast<const E*>(input.raw());
    E* to = static_cast<E*>(out->raw());
    parallel_for(ctx.team(), all_rows, std::max<std::int64_t>(1, kElementGrain / columns),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     const std::int64_t i = r % rows;
                     const std::int64_t first = std::clamp<std::int64_t>(i - lower, 0, columns);
                     const std::int64_t last = std::clamp<std::int64_t>(i + upper + 1, first, columns);
                     E* row = to + r * columns;
                     std::fill(row, row + first, E());
                     if (!in_place) std::copy(from + r * columns + first, from + r * columns + last, row + first);
                     std::fill(row + last, row + columns, E());
                   }
                 });
  });
  return {};
}

Status diag(KernelContext& ctx) {
  const Tensor& diagonal = ctx.input(0);
  if (diagonal.rank() < 1) return invalid_argument("Input must be at least rank 1, got 0");
  if (2 * diagonal.rank() > kMaxRank) return invalid_argument("diagonal has too many dimensions");
  DimList dims;
  for (int half = 0; half < 2; ++half) {
    for (const std::int64_t dim : diagonal.shape().dims()) dims.push_back(dim);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  zero_elements(out->dtype(), out->raw(), out->num_elements());
  const std::int64_t size = diagonal.num_elements();
  if (size > 0) write_diagonals(out->dtype(), {{}, size, size, true, true}, 1, diagonal.raw(), out->raw(), ctx.team());
  return {};
}

Status diag_part(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int half = input.rank() / 2;
  bool fits = input.rank() > 0 && input.rank() % 2 == 0;
  if (!fits) {
    return invalid_argument("The rank of the tensor should be even and positive, got shape ", input.shape());
  }
  DimList dims;
  for (int d = 0; d < half; ++d) {
    fits &= input.dim(d) == input.dim(d + half);
    dims.push_back(input.dim(d));
  }
  if (!fits) return invalid_argument("Invalid shape ", input.shape(), ": both halves of the dimensions must be equal");
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape(dims.span())));
  const std::int64_t size = out->num_elements();
  if (size > 0) read_diagonals(out->dtype(), {{}, size, size, true, true}, 1, input.raw(), out->raw(), ctx.team());
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/linalg.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

using PreciseComplex = std::complex<double>;

double conj_of(double x) { return x; }
PreciseComplex conj_of(const PreciseComplex& x) { return std::conj(x); }
double real_of(double x) { return x; }
double real_of(const PreciseComplex& x) { return x.real(); }

DType precise(DType dtype) { return is_complex(dtype) ? DType::kComplex128 : DType::kDouble; }

// Calls fn with a zero of the type in which `dtype` is computed.
template <typename Fn>
auto with_precise(DType dtype, const Fn& fn) {
  return is_complex(dtype) ? fn(PreciseComplex{}) : fn(double{});
}

// The number of matrices that `shape` holds, each of `size` rows and columns.
struct Matrices {
  std::int64_t count = 0, size = 0;
};

Result<Matrices> square_matrices(const Shape& shape) {
  if (shape.rank() < 2) return invalid_argument("Input tensor must have rank >= 2, got shape ", shape);
  const std::int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  if (rows != columns) return invalid_argument("Input matrices must be squares, got ", rows, " != ", columns);
  return Matrices{elements_before(shape, shape.rank() - 2), rows};
}

Shape without_last_two(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
}

// Calls fn(i), which may fail, for each matrix; gives the first failure that is seen.
template <typename Fn>
Status for_matrices(KernelContext& ctx, const Matrices& all, const Fn& fn) {
  const double side = static_cast<double>(std::max<std::int64_t>(1, all.size));
  const auto grain =
      static_cast<std::int64_t>(std::max(1.0, static_cast<double>(kElementGrain) / (side * side * side)));
  std::atomic<bool> failed = false;
  Status first;
  parallel_for(ctx.team(), all.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && !failed; ++i) {
      Status status = fn(i);
      if (!status.ok() && !failed.exchange(true)) first = std::move(status);
    }
  });
  return first;
}

template <typename T>
void adjoint_in_place(T* a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    a[i * n + i] = conj_of(a[i * n + i]);
    for (std::int64_t j = i + 1; j < n; ++j) {
      const T upper = a[i * n + j];
      a[i * n + j] = conj_of(a[j * n + i]);
      a[j * n + i] = conj_of(upper);
    }
  }
}

// Row-pivoted: row i of L U is row order[i] of the matrix; L has ones on its diagonal.
template <typename T>
class Lu {
 public:
  Lu(const T* matrix, std::int64_t n, bool adjoint)
      : n_(n), a_(matrix, matrix + n * n), order_(static_cast<std::size_t>(n)) {
    if (adjoint) adjoint_in_place(a_.data(), n);
    for (std::int64_t i = 0; i < n; ++i) order_[static_cast<std::size_t>(i)] = i;
    for (std::int64_t k = 0; k < n; ++k) eliminate(k);
  }

  bool singular() const {
    for (std::int64_t i = 0; i < n_; ++i) {
      // Not-a-number counts as no pivot either.
      if (!(std::abs(pivot(i)) > 0)) return true;
    }
    return false;
  }
  const T& pivot(std::int64_t i) const { return a_[static_cast<std::size_t>(i * n_ + i)]; }
  bool odd() const { return odd_; }

  // Solves for `columns` right-hand sides, row-major.
  void solve(const T* rhs, std::int64_t columns, T* x) const {
    for (std::int64_t i = 0; i < n_; ++i) {
      std::copy_n(rhs + order_[static_cast<std::size_t>(i)] * columns, columns, x + i * columns);
      for (std::int64_t k = 0; k < i; ++k) subtract(x, i, k, columns);
    }
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      for (std::int64_t k = i + 1; k < n_; ++k) subtract(x, i, k, columns);
      for (std::int64_t c = 0; c < columns; ++c) x[i * columns + c] /= pivot(i);
    }
  }

 private:
  void eliminate(std::int64_t k) {
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < n_; ++i) {
      if (std::abs(at(i, k)) > std::abs(at(best, k))) best = i;
    }
    if (best != k) {
      std::swap_ranges(&at(k, 0), &at(k, 0) + n_, &at(best, 0));
      std::swap(order_[static_cast<std::size_t>(k)], order_[static_cast<std::size_t>(best)]);
      odd_ = !odd_;
    }
    if (at(k, k) == T{}) return;
    for (std::int64_t i = k + 1; i < n_; ++i) {
      const T factor = at(i, k) /= at(k, k);
      for (std::int64_t j = k + 1; j < n_; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  // Row i of x less its multiple of row k.
  void subtract(T* x, std::int64_t i, std::int64_t k, std::int64_t columns) const {
    const T factor = a_[static_cast<std::size_t>(i * n_ + k)];
    for (std::int64_t c = 0; c < columns; ++c) x[i * columns + c] -= factor * x[k * columns + c];
  }
  T& at(std::int64_t i, std::int64_t j) { return a_[static_cast<std::size_t>(i * n_ + j)]; }

  const std::int64_t n_;
  std::vector<T> a_;
  std::vector<std::int64_t> order_;
  bool odd_ = false;
};

template <typename T>
bool factor_cholesky(const T* a, std::int64_t n, T* l) {
  std::fill_n(l, n * n, T{});
  for (std::int64_t j = 0; j < n; ++j) {
    double diagonal = real_of(a[j * n + j]);
    for (std::int64_t k = 0; k < j; ++k) diagonal -= std::norm(l[j * n + k]);
    if (!(diagonal > 0)) return false;
    const double root = std::sqrt(diagonal);
    l[j * n + j] = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      T sum = a[i * n + j];
      for (std::int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * conj_of(l[j * n + k]);
      l[i * n + j] = sum / root;
    }
  }
  return true;
}

// A triangle as it is to be solved with: the adjoint of a lower one is an upper one.
template <typename T>
struct Triangle {
  const T* a;
  std::int64_t n;
  bool lower, adjoint;

  T at(std::int64_t i, std::int64_t j) const { return adjoint ? conj_of(a[j * n + i]) : a[i * n + j]; }
  bool solved_downwards() const { return lower != adjoint; }

  bool solve(const T* rhs, std::int64_t columns, T* x) const {
    std::copy_n(rhs, n * columns, x);
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = solved_downwards() ? step : n - 1 - step;
      if (at(i, i) == T{}) return false;
      const std::int64_t begin = solved_downwards() ? 0 : i + 1, end = solved_downwards() ? i : n;
      for (std::int64_t k = begin; k < end; ++k) {
        const T factor = at(i, k);
        for (std::int64_t c = 0; c < columns; ++c) x[i * columns + c] -= factor * x[k * columns + c];
      }
      for (std::int64_t c = 0; c < columns; ++c) x[i * columns + c] /= at(i, i);
    }
    return true;
  }
};

bool read_flag(const KernelInit& init, std::string_view name) { return init.attr<bool>(name); }

class MatrixInverse : public Kernel {
 public:
  explicit MatrixInverse(const KernelInit& init) : adjoint_(read_flag(init, "adjoint")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(input.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
    if (input.num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, input, precise(input.dtype())));
    TUTTI_ASSIGN_OR_RETURN(Tensor x, wide_output(ctx, *out, precise(input.dtype())));
    TUTTI_RETURN_IF_ERROR(with_precise(input.dtype(), [&]<typename T>(T) { return invert<T>(ctx, all, a, x); }));
    narrow_into(x, *out);
    return {};
  }

 private:
  template <typename T>
  Status invert(KernelContext& ctx, const Matrices& all, const Tensor& a, Tensor& x) const {
    const std::int64_t n = all.size;
    std::vector<T> identity(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i) identity[static_cast<std::size_t>(i * n + i)] = T(1);
    return for_matrices(ctx, all, [&](std::int64_t i) -> Status {
      const Lu<T> lu(a.data<T>() + i * n * n, n, adjoint_);
      if (lu.singular()) return invalid_argument("Input is not invertible.");
      lu.solve(identity.data(), n, x.data<T>() + i * n * n);
      return {};
    });
  }

  const bool adjoint_;
};

class MatrixSolve : public Kernel {
 public:
  explicit MatrixSolve(const KernelInit& init) : adjoint_(read_flag(init, "adjoint")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& matrix = ctx.input(0);
    const Tensor& rhs = ctx.input(1);
    TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(matrix.shape()));
    if (rhs.rank() != matrix.rank() || without_last_two(rhs.shape()) != without_last_two(matrix.shape()) ||
        rhs.dim(rhs.rank() - 2) != all.size) {
      return invalid_argument("Input matrix and rhs are incompatible: ", matrix.shape(), " and ", rhs.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, rhs.shape()));
    if (rhs.num_elements() == 0) return {};
    const DType wide = precise(matrix.dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, matrix, wide));
    TUTTI_ASSIGN_OR_RETURN(const Tensor b, widened(ctx, rhs, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor x, wide_output(ctx, *out, wide));
    const std::int64_t n = all.size, columns = rhs.dim(rhs.rank() - 1);
    TUTTI_RETURN_IF_ERROR(with_precise(matrix.dtype(), [&]<typename T>(T) {
      return for_matrices(ctx, all, [&](std::int64_t i) -> Status {
        const Lu<T> lu(a.data<T>() + i * n * n, n, adjoint_);
        if (lu.singular()) return invalid_argument("Input matrix is not invertible.");
        lu.solve(b.data<T>() + i * n * columns, columns, x.data<T>() + i * n * columns);
        return {};
      });
    }));
    narrow_into(x, *out);
    return {};
  }

 private:
  const bool adjoint_;
};

class MatrixTriangularSolve : public Kernel {
 public:
  explicit MatrixTriangularSolve(const KernelInit& init)
      : lower_(read_flag(init, "lower")), adjoint_(read_flag(init, "adjoint")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& matrix = ctx.input(0);
    const Tensor& rhs = ctx.input(1);
    TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(matrix.shape()));
    if (rhs.rank() < 2 || rhs.dim(rhs.rank() - 2) != all.size) {
      return invalid_argument("In[0] mismatch In[1] shape: ", matrix.shape(), " and ", rhs.shape());
    }
    const Shape matrix_batch = without_last_two(matrix.shape()), rhs_batch = without_last_two(rhs.shape());
    Result<Shape> batch = broadcast_shapes(matrix_batch, rhs_batch);
    if (!batch.ok()) {
      return invalid_argument("In[0] and In[1] must have compatible batch dimensions: ", matrix.shape(), " vs. ",
                              rhs.shape());
    }
    std::vector<std::int64_t> dims(batch->dims().begin(), batch->dims().end());
    dims.push_back(all.size);
    dims.push_back(rhs.dim(rhs.rank() - 1));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (shape.num_elements() == 0) return {};
    const DType wide = precise(matrix.dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, matrix, wide));
    TUTTI_ASSIGN_OR_RETURN(const Tensor b, widened(ctx, rhs, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor x, wide_output(ctx, *out, wide));
    const Broadcast<2> walk(*batch, {&matrix_batch, &rhs_batch});
    TUTTI_RETURN_IF_ERROR(
        with_precise(matrix.dtype(), [&]<typename T>(T) { return solve<T>(walk, all.size, a, b, x); }));
    narrow_into(x, *out);
    return {};
  }

 private:
  template <typename T>
  Status solve(const Broadcast<2>& walk, std::int64_t n, const Tensor& a, const Tensor& b, Tensor& x) const {
    const std::int64_t columns = b.dim(b.rank() - 1);
    bool solved = true;
    walk.for_rows(0, walk.rows(), [&](std::int64_t to, const std::array<std::int64_t, 2>& from) {
      for (std::int64_t i = 0; i < walk.row_size(); ++i) {
        const Triangle<T> triangle{a.data<T>() + (from[0] + i * walk.row_step()[0]) * n * n, n, lower_, adjoint_};
        solved &= triangle.solve(b.data<T>() + (from[1] + i * walk.row_step()[1]) * n * columns, columns,
                                 x.data<T>() + (to + i) * n * columns);
      }
    });
    if (!solved) return invalid_argument("Input matrix is not invertible.");
    return {};
  }

  const bool lower_;
  const bool adjoint_;
};

}  // namespace

KernelFactory matrix_inverse_kernel() { return kernel_of<MatrixInverse>(); }
KernelFactory matrix_solve_kernel() { return kernel_of<MatrixSolve>(); }
KernelFactory matrix_triangular_solve_kernel() { return kernel_of<MatrixTriangularSolve>(); }

Status cholesky(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(input.shape()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
  if (input.num_elements() == 0) return {};
  TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, input, precise(input.dtype())));
  TUTTI_ASSIGN_OR_RETURN(Tensor l, wide_output(ctx, *out, precise(input.dtype())));
  const std::int64_t n = all.size;
  TUTTI_RETURN_IF_ERROR(with_precise(input.dtype(), [&]<typename T>(T) {
    return for_matrices(ctx, all, [&](std::int64_t i) -> Status {
      if (factor_cholesky(a.data<T>() + i * n * n, n, l.data<T>() + i * n * n)) return {};
      return invalid_argument("Cholesky decomposition was not successful. The input might not be valid.");
    });
  }));
  narrow_into(l, *out);
  return {};
}

Status matrix_determinant(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(input.shape()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, without_last_two(input.shape())));
  TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, input, precise(input.dtype())));
  TUTTI_ASSIGN_OR_RETURN(Tensor result, wide_output(ctx, *out, precise(input.dtype())));
  const std::int64_t n = all.size;
  TUTTI_RETURN_IF_ERROR(with_precise(input.dtype(), [&]<typename T>(T) {
    return for_matrices(ctx, all, [&](std::int64_t i) -> Status {
      const Lu<T> lu(a.data<T>() + i * n * n, n, false);
      T product = lu.odd() ? T(-1) : T(1);
      for (std::int64_t k = 0; k < n; ++k) product *= lu.pivot(k);
      result.data<T>()[i] = product;
      return {};
    });
  }));
  narrow_into(result, *out);
  return {};
}

Status log_matrix_determinant(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Matrices all, square_matrices(input.shape()));
  const Shape shape = without_last_two(input.shape());
  TUTTI_ASSIGN_OR_RETURN(Tensor * signs, ctx.allocate_output(0, shape));
  TUTTI_ASSIGN_OR_RETURN(Tensor * logs, ctx.allocate_output(1, shape));
  TUTTI_ASSIGN_OR_RETURN(const Tensor a, widened(ctx, input, precise(input.dtype())));
  TUTTI_ASSIGN_OR_RETURN(Tensor sign, wide_output(ctx, *signs, precise(input.dtype())));
  TUTTI_ASSIGN_OR_RETURN(Tensor log, wide_output(ctx, *logs, precise(input.dtype())));
  const std::int64_t n = all.size;
  TUTTI_RETURN_IF_ERROR(with_precise(input.dtype(), [&]<typename T>(T) {
    return for_matrices(ctx, all, [&](std::int64_t i) -> Status {
      const Lu<T> lu(a.data<T>() + i * n * n, n, false);
      T direction = lu.odd() ? T(-1) : T(1);
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const double size = std::abs(lu.pivot(k));
        direction *= size > 0 ? lu.pivot(k) / size : T{};
        sum += std::log(size);
      }
      sign.data<T>()[i] = direction;
      log.data<T>()[i] = T(sum);
      return {};
    });
  }));
  narrow_into(sign, *signs);
  narrow_into(log, *logs);
  return {};
}

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/qr.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

struct QrSizes {
  std::int64_t m = 0;
  std::int64_t n = 0;
  bool full = false;
  std::int64_t reflections() const { return std::min(m, n); }
  std::int64_t q_columns() const { return full ? m : reflections(); }
  std::int64_t r_rows() const { return full ? m : reflections(); }
};

template <typename T>
T conjugate(const T& x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return x;
  } else {
    return std::conj(x);
  }
}

// One matrix. `a` [m, n] is overwritten: r in its upper triangle, below it the reflections' vectors without their first
// element, which is 1.
template <typename T>
class Householder {
 public:
  Householder(const QrSizes& sizes, T* a)
      : s_(sizes), a_(a), taus_(sizes.reflections()), room_(std::max(sizes.m, sizes.n)) {}

  void decompose() {
    for (std::int64_t k = 0; k < s_.reflections(); ++k) {
      make_reflection(k);
      // What is left of rows k.. and columns k+1.. is reflected.
      reflect(k, taus_[k], a_ + k * s_.n + k + 1, s_.n, s_.n - k - 1);
    }
  }

  void put_r(T* r) const {
    for (std::int64_t i = 0; i < s_.r_rows(); ++i) {
      for (std::int64_t j = 0; j < s_.n; ++j) r[i * s_.n + j] = j >= i ? a_[i * s_.n + j] : T(0);
    }
  }

  // The reflections, last to first, applied to columns of the identity.
  void put_q(T* q) {
    const std::int64_t columns = s_.q_columns();
    std::fill_n(q, s_.m * columns, T(0));
    for (std::int64_t i = 0; i < columns; ++i) q[i * columns + i] = T(1);
    for (std::int64_t k = s_.reflections() - 1; k >= 0; --k) {
      reflect(k, conjugate(taus_[k]), q + k * columns + k, columns, columns - k);
    }
  }

 private:
  void make_reflection(std::int64_t k) {
    using Real = decltype(std::abs(T()));
    T* const column = a_ + k * s_.n + k;
    Real tail = 0;
    for (std::int64_t i = 1; i < s_.m - k; ++i) tail += std::norm(column[i * s_.n]);
    const T first = *column;
    const Real imaginary = std::imag(first);
    if (tail <= std::numeric_limits<Real>::min() && imaginary * imaginary <= std::numeric_limits<Real>::min()) {
      taus_[k] = T(0);
      *column = T(std::real(first));
      for (std::int64_t i = 1; i < s_.m - k; ++i) column[i * s_.n] = T(0);
      return;
    }
    Real beta = std::sqrt(std::norm(first) + tail);
    if (std::real(first) >= 0) beta = -beta;
    for (std::int64_t i = 1; i < s_.m - k; ++i) column[i * s_.n] /= first - beta;
    taus_[k] = conjugate((beta - first) / beta);
    *column = T(beta);
  }

  // x -= tau v (v* x), x being rows k.. of `count` columns at `x`, `stride` apart.
  void reflect(std::int64_t k, T tau, T* x, std::int64_t stride, std::int64_t count) {
    if (tau == T(0) || count == 0) return;
    T* const sums = room_.data();
    std::copy_n(x, count, sums);
    const T* const v = a_ + k * s_.n + k;
    for (std::int64_t i = 1; i < s_.m - k; ++i) {
      const T factor = conjugate(v[i * s_.n]);
      for (std::int64_t j = 0; j < count; ++j) sums[j] += factor * x[i * stride + j];
    }
    for (std::int64_t j = 0; j < count; ++j) sums[j] *= tau;
    for (std::int64_t j = 0; j < count; ++j) x[j] -= sums[j];
    for (std::int64_t i = 1; i < s_.m - k; ++i) {
      const T factor = v[i * s_.n];
      for (std::int64_t j = 0; j < count; ++j) x[i * stride + j] -= factor * sums[j];
    }
  }

  const QrSizes s_;
  T* const a_;
  std::vector<T> taus_;
  std::vector<T> room_;
};

class Qr : public Kernel {
 public:
  explicit Qr(const KernelInit& init) : full_(init.attr<bool>("full_matrices")) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < 2) return invalid_argument("Qr: input must have at least 2 dimensions, got ", in.shape());
    const QrSizes s{.m = in.dim(in.rank() - 2), .n = in.dim(in.rank() - 1), .full = full_};
    TUTTI_ASSIGN_OR_RETURN(const Shape q_shape, matrices(in.shape(), s.m, s.q_columns()));
    TUTTI_ASSIGN_OR_RETURN(const Shape r_shape, matrices(in.shape(), s.r_rows(), s.n));
    TUTTI_ASSIGN_OR_RETURN(Tensor * q, context.allocate_output(0, q_shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * r, context.allocate_output(1, r_shape));
    const DType wide = in.dtype() == DType::kHalf ? DType::kFloat : in.dtype();
    TUTTI_ASSIGN_OR_RETURN(Tensor values, widened(context, in, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor wide_q, wide_output(context, *q, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor wide_r, wide_output(context, *r, wide));
    TUTTI_RETURN_IF_ERROR(by_type(context, s, values, wide_q, wide_r));
    narrow_into(wide_q, *q);
    narrow_into(wide_r, *r);
    return {};
  }

 private:
  static Result<Shape> matrices(const Shape& like, std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> dims(like.dims().begin(), like.dims().end() - 2);
    dims.push_back(rows);
    dims.push_back(columns);
    return Shape::create(dims);
  }

  static Status by_type(KernelContext& context, const QrSizes& s, const Tensor& in, Tensor& q, Tensor& r) {
    switch (in.dtype()) {
      case DType::kFloat:
        return run<float>(context, s, in, q, r);
      case DType::kDouble:
        return run<double>(context, s, in, q, r);
      case DType::kComplex64:
        return run<std::complex<float>>(context, s, in, q, r);
      case DType::kComplex128:
        return run<std::complex<double>>(context, s, in, q, r);
      default:
        return invalid_argument("Qr: no kernel for ", dtype_name(in.dtype()));
    }
  }

  template <typename T>
  static Status run(KernelContext& context, const QrSizes& s, const Tensor& in, Tensor& q, Tensor& r) {
    const std::int64_t q_size = s.m * s.q_columns(), r_size = s.r_rows() * s.n, a_size = s.m * s.n;
    if (a_size == 0) {
      for (std::int64_t i = 0; q_size > 0 && i < q.num_elements(); ++i) {
        q.data<T>()[i] = T(i % q_size % (s.q_columns() + 1) == 0 ? 1 : 0);
      }
      std::fill_n(r.data<T>(), r.num_elements(), T(0));
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor room, in.clone(context.allocator()));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, a_size));
    parallel_for(context.team(), in.num_elements() / a_size, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Householder<T> one(s, room.data<T>() + i * a_size);
        one.decompose();
        one.put_r(r.data<T>() + i * r_size);
        one.put_q(q.data<T>() + i * q_size);
      }
    });
    return {};
  }

  const bool full_;
};

}  // namespace

KernelFactory qr_kernel() { return kernel_of<Qr>(); }

}  // namespace tutti::cpu

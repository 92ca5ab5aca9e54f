#include "tutti/kernels/cpu/gemm.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti::cpu {

namespace {

// True when there is nothing to multiply; c is then complete.
template <typename T>
bool trivial(const GemmShape& s, T* c) {
  if (s.m == 0 || s.n == 0) return true;
  if (s.k != 0) return false;
  std::fill_n(c, s.m * s.n, T{});
  return true;
}

// Units of rows such that a thread gets about 100,000 multiply-adds or more.
std::int64_t row_grain(const GemmShape& s) {
  const double per_row = static_cast<double>(s.n) * static_cast<double>(s.k);
  return static_cast<std::int64_t>(std::max(1.0, 1e5 / per_row));
}

// Packing costs more than it saves.
bool is_small(const GemmShape& s) {
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) <= 2048;
}

Status double_gemm(const GemmShape& s, const double* a, const double* b, double* c, Team& team, Allocator& allocator) {
  const int pieces = parallel_pieces(team, s.m, row_grain(s));
  const std::int64_t each = internal::packed_doubles();
  BufferPtr room = allocator.allocate(static_cast<std::size_t>(each * pieces) * sizeof(double));
  if (!room) return resource_exhausted("MatMul: no memory for ", each * pieces * 8, " bytes of packed operands");
  double* packed = static_cast<double*>(room->data());
  parallel_ranges(team, s.m, row_grain(s), [&](int piece, std::int64_t begin, std::int64_t end) {
    internal::blocked_gemm(s, a, b, c, begin, end, packed + piece * each);
  });
  return {};
}

// Integers multiply as unsigned, which wraps instead of being undefined.
template <typename T>
void plain_rows(const GemmShape& s, const T* a, const T* b, T* c, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    T* row = c + i * s.n;
    std::fill_n(row, s.n, T{});
    for (std::int64_t k = 0; k < s.k; ++k) {
      const T factor = s.transpose_a ? a[k * s.m + i] : a[i * s.k + k];
      const T* other = s.transpose_b ? b + k : b + k * s.n;
      const std::int64_t step = s.transpose_b ? s.k : 1;
      for (std::int64_t j = 0; j < s.n; ++j) row[j] += factor * other[j * step];
    }
  }
}

template <typename T>
void plain_gemm(const GemmShape& s, const T* a, const T* b, T* c, Team& team) {
  parallel_for(team, s.m, row_grain(s),
               [&](std::int64_t begin, std::int64_t end) { plain_rows(s, a, b, c, begin, end); });
}

// Few rows times a matrix that is to be transposed: oneDNN turns it while it packs it, which costs a third of its speed
// or, in rows of a power of two of bytes, half. Turning the few rows and the result instead costs a tenth.
constexpr std::int64_t kFewRows = 64;
constexpr std::int64_t kManyRows = 96;
bool turns(const GemmShape& s) {
  return s.transpose_b && !s.transpose_a && s.m > 1 && s.m <= kFewRows && s.n >= kManyRows && s.k >= kManyRows;
}

// from[rows, columns], transposed.
void turn(const float* from, std::int64_t rows, std::int64_t columns, float* to, Team& team) {
  StridedCopy copy;
  copy.add_loop(columns, rows, 1);
  copy.add_loop(rows, 1, columns);
  copy.run(DType::kFloat, to, from, team);
}

// c^T = b a^T
Status turned_gemm(const GemmShape& s, const float* a, const float* b, float* c, Team& team, Allocator& allocator) {
  const std::int64_t floats = s.m * (s.k + s.n);
  const BufferPtr room = allocator.allocate(static_cast<std::size_t>(floats) * sizeof(float));
  if (!room) return resource_exhausted("MatMul: no memory for ", floats * 4, " bytes of transposed operands");
  float* const turned_a = static_cast<float*>(room->data());
  float* const turned_c = turned_a + s.m * s.k;
  turn(a, s.m, s.k, turned_a, team);
  const GemmShape turned{.m = s.n, .n = s.m, .k = s.k};
  TUTTI_RETURN_IF_ERROR(internal::onednn_gemm(turned, dense_strides(turned), b, turned_a, turned_c, team));
  turn(turned_c, s.n, s.m, c, team);
  return {};
}

}  // namespace

template <typename T>
Status gemm(const GemmShape& shape, const T* a, const T* b, T* c, Team& team, Allocator& allocator) {
  if (trivial(shape, c)) return {};
  if constexpr (std::is_same_v<T, float>) {
    if (internal::small_gemm(shape, a, b, c)) return {};
    if (turns(shape)) return turned_gemm(shape, a, b, c, team, allocator);
    return internal::onednn_gemm(shape, dense_strides(shape), a, b, c, team);
  } else if constexpr (std::is_same_v<T, double>) {
    if (is_small(shape)) {
      plain_gemm(shape, a, b, c, Team::alone());
      return {};
    }
    return double_gemm(shape, a, b, c, team, allocator);
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    plain_gemm(shape, reinterpret_cast<const U*>(a), reinterpret_cast<const U*>(b), reinterpret_cast<U*>(c), team);
    return {};
  } else {
    plain_gemm(shape, a, b, c, team);
    return {};
  }
}

template Status gemm(const GemmShape&, const float*, const float*, float*, Team&, Allocator&);
template Status gemm(const GemmShape&, const double*, const double*, double*, Team&, Allocator&);
template Status gemm(const GemmShape&, const std::int32_t*, const std::int32_t*, std::int32_t*, Team&, Allocator&);
template Status gemm(const GemmShape&, const std::int64_t*, const std::int64_t*, std::int64_t*, Team&, Allocator&);
template Status gemm(const GemmShape&, const std::complex<double>*, const std::complex<double>*, std::complex<double>*,
                     Team&, Allocator&);

Status strided_gemm(const GemmShape& shape, const GemmStrides& strides, const float* a, const float* b, float* c,
                    Team& team) {
  return internal::onednn_gemm(shape, strides, a, b, c, team);
}

Status accumulating_gemm(const GemmShape& shape, const float* a, const float* b, float* c, Team& team) {
  return internal::onednn_gemm(shape, dense_strides(shape), a, b, c, team, internal::GemmResult::kAdd);
}

bool can_multiply(DType dtype) { return kNumbers.contains(dtype); }

namespace {

// Half and bfloat16 multiply as float, small integers as int32, complex64 as complex128.
Status multiply_converted(DType dtype, const GemmShape& shape, const void* a, const void* b, void* c, Team& team,
                          Allocator& allocator) {
  const DType wide = compute_dtype(dtype);
  TUTTI_ASSIGN_OR_RETURN(Tensor wide_a, Tensor::create(wide, Shape{shape.m * shape.k}, allocator));
  TUTTI_ASSIGN_OR_RETURN(Tensor wide_b, Tensor::create(wide, Shape{shape.k * shape.n}, allocator));
  TUTTI_ASSIGN_OR_RETURN(Tensor wide_c, Tensor::create(wide, Shape{shape.m * shape.n}, allocator));
  const ConvertFn widen = find_convert(dtype, wide);
  widen(a, wide_a.raw(), wide_a.num_elements());
  widen(b, wide_b.raw(), wide_b.num_elements());
  TUTTI_RETURN_IF_ERROR(multiply(wide, shape, wide_a.raw(), wide_b.raw(), wide_c.raw(), team, allocator));
  find_convert(wide, dtype)(wide_c.raw(), c, wide_c.num_elements());
  return {};
}

}  // namespace

Status multiply(DType dtype, const GemmShape& shape, const void* a, const void* b, void* c, Team& team,
                Allocator& allocator) {
  const auto call = [&]<typename T>(T) {
    return gemm(shape, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c), team, allocator);
  };
  switch (dtype) {
    case DType::kFloat:
      return call(float{});
    case DType::kDouble:
      return call(double{});
    case DType::kInt32:
    case DType::kUint32:
      return call(std::int32_t{});
    case DType::kInt64:
    case DType::kUint64:
      return call(std::int64_t{});
    case DType::kComplex128:
      return call(std::complex<double>{});
    default:
      return multiply_converted(dtype, shape, a, b, c, team, allocator);
  }
}

}  // namespace tutti::cpu

// Matrix products of plain arrays.
#pragma once

#include <cstdint>
#include <memory>

#include "tutti/core/allocator.h"
#include "tutti/core/dtype.h"
#include "tutti/core/status.h"

namespace tutti::cpu {

// c[m,n] = op(a) op(b), all row major and dense: a is [m,k], or [k,m] when transposed; b is [k,n] or [n,k].
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool operator==(const GemmShape&) const = default;
};

// The product of one pair of matrices, for T of float, double, int32, int64, complex<double>. Integers wrap. A
// dimension of 0 gives zeros or nothing. `allocator` lends room for packed operands. The same bits for the same
// `threads`.
template <typename T>
Status gemm(const GemmShape& shape, const T* a, const T* b, T* c, int threads, Allocator& allocator);

// Products of one dtype, keeping what is worth keeping between calls (oneDNN's primitives by shape). Thread-safe.
class Product {
 public:
  explicit Product(DType dtype);
  ~Product();
  Product(Product&&) noexcept;

  static bool supports(DType dtype);
  Status run(const GemmShape& shape, const void* a, const void* b, void* c, int threads, Allocator& allocator) const;

 private:
  struct FloatCache;
  Status run_converted(const GemmShape& shape, const void* a, const void* b, void* c, int threads,
                       Allocator& allocator) const;
  DType dtype_;
  std::unique_ptr<FloatCache> cache_;  // float only
};

namespace internal {
// The float product on oneDNN, keeping the primitives of products on several threads by shape. Thread-safe.
class OneDnnProducts {
 public:
  OneDnnProducts();
  ~OneDnnProducts();
  Status run(const GemmShape& shape, const float* a, const float* b, float* c, int threads, Allocator& allocator);
  // Name of oneDNN's implementation, for tests: nothing with "ref" belongs on a hot path.
  static std::string implementation(const GemmShape& shape);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Small products, where calling oneDNN costs more than multiplying. True when it took the product.
bool small_gemm(const GemmShape& shape, const float* a, const float* b, float* c);
// Packed and blocked; `room` holds packed_doubles() doubles. Rows [begin, end) of c.
std::int64_t packed_doubles();
void blocked_gemm(const GemmShape& shape, const double* a, const double* b, double* c, std::int64_t begin,
                  std::int64_t end, double* room);
}  // namespace internal

}  // namespace tutti::cpu

#include "tutti/kernels/cpu/sparse_matmul.h"

#include <array>
#include <complex>
#include <type_traits>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// The product as it is computed: places of the left operand, rows of the right one.
struct Product {
  const Tensor& indices;
  const Tensor& values;
  const Tensor& b;
  bool adjoint_a;
  bool adjoint_b;
  std::int64_t rows;     // of the result
  std::int64_t inner;    // columns of the left operand
  std::int64_t columns;  // of the result

  std::int64_t index(std::int64_t i, int column) const {
    return index_at(indices.raw(), indices.dtype(), 2 * i + column);
  }
  std::int64_t row(std::int64_t i) const { return index(i, adjoint_a ? 1 : 0); }
  std::int64_t column(std::int64_t i) const { return index(i, adjoint_a ? 0 : 1); }
};

template <typename T>
T conjugate_if(bool wanted, T value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return wanted ? std::conj(value) : value;
  } else {
    return value;
  }
}

// Adds the places whose row is of this piece: a result's sums run in the order of the list, whatever the threads.
template <typename T, typename Sum>
void add_places(const Product& p, std::int64_t piece, std::int64_t pieces, Sum* out) {
  const T* values = p.values.data<T>();
  const T* b = p.b.data<T>();
  for (std::int64_t i = 0; i < p.values.num_elements(); ++i) {
    const std::int64_t row = p.row(i), k = p.column(i);
    if (pieces > 1 && row % pieces != piece) continue;
    const Sum value = static_cast<Sum>(conjugate_if(p.adjoint_a, values[i]));
    Sum* to = out + row * p.columns;
    if (p.adjoint_b) {
      for (std::int64_t j = 0; j < p.columns; ++j) {
        to[j] += value * static_cast<Sum>(conjugate_if(true, b[j * p.inner + k]));
      }
    } else {
      for (std::int64_t j = 0; j < p.columns; ++j) to[j] += value * static_cast<Sum>(b[k * p.columns + j]);
    }
  }
}

template <typename T, typename Sum>
void add_all(const Product& p, Team& team, Sum* out) {
  const int pieces = parallel_pieces(team, p.values.num_elements() * p.columns, kElementGrain / 2);
  team.run(pieces, [&](int piece) { add_places<T>(p, piece, pieces, out); });
}

template <typename T>
Status multiply(const Product& p, KernelContext& ctx, Tensor& out) {
  using Sum = typename ArithmeticOf<T>::type;
  zero_elements(out.dtype(), out.raw(), out.num_elements());
  if (p.values.num_elements() == 0 || out.num_elements() == 0) return {};
  if constexpr (sizeof(Sum) == sizeof(T)) {
    // Integers are added up as unsigned ones, which may overflow.
    add_all<T>(p, ctx.team(), static_cast<Sum*>(out.raw()));
  } else {
    constexpr DType kWide = std::is_same_v<Sum, float> ? DType::kFloat : DType::kUint32;
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, ctx.allocate_temp(kWide, out.shape()));
    zero_elements(kWide, wide.raw(), wide.num_elements());
    add_all<T>(p, ctx.team(), wide.data<Sum>());
    for (std::int64_t i = 0; i < out.num_elements(); ++i) out.data<T>()[i] = static_cast<T>(wide.data<Sum>()[i]);
  }
  return {};
}

class SparseMatMul : public Kernel {
 public:
  explicit SparseMatMul(const KernelInit& init)
      : adjoint_a_(init.attr<bool>("adjoint_a")), adjoint_b_(init.attr<bool>("adjoint_b")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor &a_shape = ctx.input(2), &b = ctx.input(3);
    TUTTI_RETURN_IF_ERROR(check_ranks(ctx.input(0), ctx.input(1), a_shape, b));
    const std::int64_t* dims = a_shape.data<std::int64_t>();
    if (dims[0] < 0 || dims[1] < 0) {
      return invalid_argument("a_shape has a negative dimension: [", dims[0], ",", dims[1], "]");
    }
    const Product p{.indices = ctx.input(0),
                    .values = ctx.input(1),
                    .b = b,
                    .adjoint_a = adjoint_a_,
                    .adjoint_b = adjoint_b_,
                    .rows = dims[adjoint_a_ ? 1 : 0],
                    .inner = dims[adjoint_a_ ? 0 : 1],
                    .columns = b.dim(adjoint_b_ ? 0 : 1)};
    if (b.dim(adjoint_b_ ? 1 : 0) != p.inner) {
      return invalid_argument("Cannot multiply A and B because inner dimension does not match: ", p.inner, " vs. ",
                              b.dim(adjoint_b_ ? 1 : 0), ".  Did you forget a transpose?  Dimensions of A: [", dims[0],
                              ", ", dims[1], ").  Dimensions of B: ", b.shape());
    }
    TUTTI_RETURN_IF_ERROR(check_places(p));
    const std::array<std::int64_t, 2> out_dims{p.rows, p.columns};
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(out_dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    return with_number(
        out->dtype(), [&](auto zero) -> Status { return multiply<decltype(zero)>(p, ctx, *out); },
        [&]() -> Status { return unimplemented("SparseTensorDenseMatMul of ", dtype_name(out->dtype())); });
  }

 private:
  static Status check_ranks(const Tensor& indices, const Tensor& values, const Tensor& a_shape, const Tensor& b) {
    if (b.rank() != 2) return invalid_argument("Tensor 'b' is not a matrix: its shape is ", b.shape());
    if (a_shape.rank() != 1 || a_shape.dim(0) != 2) {
      return invalid_argument("Tensor 'a_shape' must have 2 elements, not the shape ", a_shape.shape());
    }
    if (values.rank() != 1) return invalid_argument("Tensor 'a_values' is not a vector: its shape is ", values.shape());
    if (indices.rank() != 2 || indices.dim(0) != values.dim(0) || indices.dim(1) != 2) {
      return invalid_argument("Tensor 'a_indices' of shape ", indices.shape(),
                              " does not list 2 coordinates for each of ", values.dim(0), " values");
    }
    return {};
  }

  static Status check_places(const Product& p) {
    for (std::int64_t i = 0; i < p.values.num_elements(); ++i) {
      const std::int64_t row = p.row(i), k = p.column(i);
      if (k < 0 || k >= p.inner) {
        return invalid_argument("k (", k, ") from index[", i, ",", p.adjoint_a ? 0 : 1, "] out of bounds (>=", p.inner,
                                ")");
      }
      if (row < 0 || row >= p.rows) {
        return invalid_argument("m (", row, ") from index[", i, ",", p.adjoint_a ? 1 : 0, "] out of bounds (>=", p.rows,
                                ")");
      }
    }
    return {};
  }

  const bool adjoint_a_;
  const bool adjoint_b_;
};

}  // namespace

KernelFactory sparse_matmul_kernel() { return kernel_of<SparseMatMul>(); }

}  // namespace tutti::cpu

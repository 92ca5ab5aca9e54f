#include "tutti/kernels/ref/products.h"

#include <complex>
#include <string>

#include "tutti/kernels/ref/numbers.h"

namespace tutti::ref {
namespace {

template <typename W>
W element(const std::vector<W>& m, std::int64_t base, std::int64_t rows, std::int64_t columns, bool transposed,
          bool conj, std::int64_t i, std::int64_t j) {
  W value = transposed ? m[base + j * rows + i] : m[base + i * columns + j];
  if constexpr (kIsComplexW<W>) {
    if (conj) value = std::conj(value);
  }
  return value;
}

// Matrices in the last two dimensions, batches broadcast.
Result<Tensor> multiply(const Tensor& x, const Tensor& y, bool flip_x, bool flip_y, bool conj) {
  if (x.rank() < 2 || y.rank() < 2) return invalid_argument("no matrices");
  const auto size = [](const Tensor& t, int from_end) { return t.dim(t.rank() - from_end); };
  const std::int64_t m = size(x, flip_x ? 1 : 2), k = size(x, flip_x ? 2 : 1), n = size(y, flip_y ? 2 : 1);
  if (k != size(y, flip_y ? 1 : 2)) return invalid_argument("inner dimensions differ");
  const Shape batch_x(x.shape().dims().first(x.rank() - 2)), batch_y(y.shape().dims().first(y.rank() - 2));
  TUTTI_ASSIGN_OR_RETURN(Shape batch, broadcast_shapes(batch_x, batch_y));
  Shape shape = batch;
  shape.append(m);
  shape.append(n);
  return with_wide(x.dtype(), [&](auto wide) -> Tensor {
    using W = decltype(wide);
    const std::vector<W> a = load<W>(x), b = load<W>(y);
    std::vector<W> out;
    for (const auto& at : coordinates(batch)) {
      const std::int64_t base_a = broadcast_position(batch_x, at) * m * k,
                         base_b = broadcast_position(batch_y, at) * k * n;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          W sum(0);
          for (std::int64_t l = 0; l < k; ++l) {
            sum += element(a, base_a, m, k, flip_x, conj && flip_x, i, l) *
                   element(b, base_b, k, n, flip_y, conj && flip_y, l, j);
          }
          out.push_back(sum);
        }
      }
    }
    return store(x.dtype(), shape, out);
  });
}

Result<Tensors> matmul(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 2) return invalid_argument("no matrices");
  TUTTI_ASSIGN_OR_RETURN(Tensor out, multiply(in[0], in[1], attr_or(attrs, "transpose_a", false),
                                              attr_or(attrs, "transpose_b", false), false));
  return Tensors{out};
}

Result<Tensors> batch_matmul(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensor out,
                         multiply(in[0], in[1], attr_or(attrs, "adj_x", false), attr_or(attrs, "adj_y", false), true));
  return Tensors{out};
}

// The old form repeats no batch.
Result<Tensors> batch_matmul_v1(const AttrMap& attrs, const Tensors& in) {
  bool same = in[0].rank() == in[1].rank();
  for (int d = 0; same && d < in[0].rank() - 2; ++d) same = in[0].dim(d) == in[1].dim(d);
  if (!same) return invalid_argument("batches differ");
  return batch_matmul(attrs, in);
}

Result<Tensors> fused_matmul(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensors product, matmul(attrs, {in[0], in[1]}));
  TUTTI_ASSIGN_OR_RETURN(Tensors sum, (*find_reference("BiasAdd"))({}, {product[0], in[2]}));
  const std::string name = attr_or(attrs, "activation", std::string());
  return name.empty() ? sum : (*find_reference(name))({}, sum);
}

Result<Tensors> matmul_add(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensors product, matmul(attrs, {in[0], in[1]}));
  return (*find_reference("AddV2"))({}, {in[2], product[0]});
}

}  // namespace

void add_product_references(References& all) {
  all["MatMul"] = matmul;
  all["_FusedMatMul"] = fused_matmul;
  all["_MatMulAdd"] = matmul_add;
  all["BatchMatMul"] = batch_matmul_v1;
  all["BatchMatMulV2"] = batch_matmul;
}

}  // namespace tutti::ref

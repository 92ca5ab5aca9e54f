// Rows of the matrix products.

#include <algorithm>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/matmul.h"
#include "tutti/kernels/cpu/sparse_matmul.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using internal::conjugate;

constexpr DTypeSet kMatMulTypes =
    kFloats | kComplexes | kIndexTypes | DTypeSet{DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};

// --- Shapes. ---

// Dimension pairs of a product: m, n, and that both k agree.
Status product_dims(const PartialShape& a, const PartialShape& b, bool transpose_a, bool transpose_b, std::int64_t* m,
                    std::int64_t* n) {
  const int ra = a.rank();
  const int rb = b.rank();
  *m = a.dim(transpose_a ? ra - 1 : ra - 2);
  *n = b.dim(transpose_b ? rb - 2 : rb - 1);
  const std::int64_t inner_a = a.dim(transpose_a ? ra - 2 : ra - 1);
  const std::int64_t inner_b = b.dim(transpose_b ? rb - 1 : rb - 2);
  if (inner_a != kUnknownDim && inner_b != kUnknownDim && inner_a != inner_b) {
    return invalid_argument("Matrix size-incompatible: In[0]: ", a, ", In[1]: ", b);
  }
  return {};
}

// Of inputs 0 and 1.
Result<PartialShape> matrix_product_shape(const ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape a, c.with_rank(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape b, c.with_rank(1, 2));
  std::int64_t m = kUnknownDim;
  std::int64_t n = kUnknownDim;
  TUTTI_RETURN_IF_ERROR(product_dims(a, b, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"), &m, &n));
  return PartialShape{m, n};
}

Status matmul_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape product, matrix_product_shape(c));
  c.set_output(0, std::move(product));
  return {};
}

Status fused_matmul_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(2, 1).status());
  return matmul_shape(c);
}

Status matmul_add_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape product, matrix_product_shape(c));
  TUTTI_ASSIGN_OR_RETURN(PartialShape out, broadcast_shapes(c.input(2), product));
  c.set_output(0, std::move(out));
  return {};
}

Status batch_matmul_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape x, c.with_rank_at_least(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape y, c.with_rank_at_least(1, 2));
  if (!x.has_rank() || !y.has_rank()) return {};
  std::int64_t m = kUnknownDim;
  std::int64_t n = kUnknownDim;
  TUTTI_RETURN_IF_ERROR(product_dims(x, y, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"), &m, &n));
  const PartialShape batch_x(std::vector<std::int64_t>(x.dims().begin(), x.dims().end() - 2));
  const PartialShape batch_y(std::vector<std::int64_t>(y.dims().begin(), y.dims().end() - 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape out, broadcast_shapes(batch_x, batch_y));
  if (!out.has_rank()) return {};
  out.append(m);
  out.append(n);
  c.set_output(0, std::move(out));
  return {};
}

Status sparse_matmul_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape indices, c.with_rank(0, 2));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape values, c.with_rank(1, 1));
  TUTTI_RETURN_IF_ERROR(c.with_rank(2, 1).status());
  TUTTI_ASSIGN_OR_RETURN(const PartialShape b, c.with_rank(3, 2));
  TUTTI_RETURN_IF_ERROR(indices.merge(PartialShape{values.dim(0), 2}).status());
  TUTTI_ASSIGN_OR_RETURN(const PartialShape a, c.input_as_shape(2).merge(PartialShape::unknown_of_rank(2)));
  std::int64_t m = kUnknownDim;
  std::int64_t n = kUnknownDim;
  TUTTI_RETURN_IF_ERROR(product_dims(a, b, c.attr<bool>("adjoint_a"), c.attr<bool>("adjoint_b"), &m, &n));
  c.set_output(0, PartialShape{m, n});
  return {};
}

// --- Gradients. ---

struct OperandGrads {
  Output a;
  Output b;
};

// The gradients of a product of a and b, by the flags that the product itself had. `multiply` takes two operands and
// the flags of both.
template <typename Multiply>
OperandGrads product_grad(GradContext& g, bool transpose_a, bool transpose_b, Output a, Output b,
                          const Multiply& multiply) {
  Output dy = g.grad();
  OperandGrads grads;
  if (g.needs(0)) grads.a = transpose_a ? multiply(b, dy, transpose_b, true) : multiply(dy, b, false, !transpose_b);
  if (g.needs(1)) grads.b = transpose_b ? multiply(dy, a, true, transpose_a) : multiply(a, dy, !transpose_a, false);
  return grads;
}

void matmul_grad(GradContext& g) {
  const OperandGrads grads =
      product_grad(g, g.attr<bool>("transpose_a"), g.attr<bool>("transpose_b"), conjugate(g.input(0)),
                   conjugate(g.input(1)), [](Output left, Output right, bool transpose_left, bool transpose_right) {
                     return matmul(left, right, {transpose_left, transpose_right});
                   });
  g.set(0, grads.a);
  g.set(1, grads.b);
}

bool same_known_batch(Output x, Output y) {
  const PartialShape& a = x.shape();
  const PartialShape& b = y.shape();
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank() - 2; ++d) {
    if (a.dim(d) == kUnknownDim || a.dim(d) != b.dim(d)) return false;
  }
  return true;
}

// Everything but the last two dimensions.
Output batch_dims(Output x) { return strided_slice(shape_of(x), {0}, {-2}, {1}); }

// Of floats and small integers.
Output mixed_product(Output left, Output right, AttrMap attrs) {
  attrs["Tout"] = is_floating(left.dtype()) ? left.dtype() : right.dtype();
  return op1("BatchMatMulV3", {left, right}, attrs);
}

void batch_matmul_grad(GradContext& g) {
  Output x = g.input(0);
  Output y = g.input(1);
  // Adjoint flags conjugate by themselves.
  OperandGrads grads = product_grad(g, g.attr<bool>("adj_x"), g.attr<bool>("adj_y"), x, y,
                                    [](Output left, Output right, bool adj_left, bool adj_right) {
                                      const AttrMap attrs{{"adj_x", adj_left}, {"adj_y", adj_right}};
                                      if (left.dtype() == right.dtype())
                                        return op1("BatchMatMulV2", {left, right}, attrs);
                                      return mixed_product(left, right, attrs);
                                    });
  if (!same_known_batch(x, y)) {
    Node* axes = add_op(g.graph(), "BroadcastGradientArgs", {batch_dims(x), batch_dims(y)});
    if (grads.a) grads.a = reshape(reduce_sum(grads.a, Ints(axes->output(0))), shape_of(x));
    if (grads.b) grads.b = reshape(reduce_sum(grads.b, Ints(axes->output(1))), shape_of(y));
  }
  g.set(0, grads.a);
  g.set(1, grads.b);
}

Output adjoint(Output x) { return conjugate(transpose(x)); }

// Column `i` of a matrix.
Output column(Output x, std::int64_t i) {
  return strided_slice(x, {0, i}, {0, i + 1}, {1, 1}, {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
}

// Of A' B' with A' = A or its adjoint, B' likewise. The dense operand gets the adjoint of A' times dy; of what A would
// get, dy times the adjoint of B', only the places that A has are computed: each a product of two rows.
void sparse_matmul_grad(GradContext& g) {
  const bool adjoint_a = g.attr<bool>("adjoint_a"), adjoint_b = g.attr<bool>("adjoint_b");
  Output indices = g.input(0), dy = g.grad();
  if (g.needs(1)) {
    Output b = adjoint_b ? adjoint(g.input(3)) : g.input(3);
    Output dy_rows = gather(dy, column(indices, adjoint_a ? 1 : 0));
    Output b_rows = gather(b, column(indices, adjoint_a ? 0 : 1));
    Output products = adjoint_a ? mul(b_rows, conjugate(dy_rows)) : mul(dy_rows, conjugate(b_rows));
    g.set(1, reduce_sum(products, {-1}));
  }
  if (g.needs(3)) {
    Output db = op1("SparseTensorDenseMatMul", {indices, g.input(1), g.input(2), dy}, {{"adjoint_a", !adjoint_a}});
    g.set(3, adjoint_b ? adjoint(db) : db);
  }
}

}  // namespace

void register_matmul_ops(OpTable& ops) {
  ops.add({.name = "MatMul",
           .signature = "a: T, b: T -> product: T",
           .attrs = "transpose_a: bool = false; transpose_b: bool = false; T: type",
           .types = kMatMulTypes,
           .shape = matmul_shape,
           .grad = matmul_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::matmul_kernel())}});
  ops.add({.name = "_FusedMatMul",
           .signature = "a: T, b: T, bias: T -> product: T",
           .attrs = "transpose_a: bool = false; transpose_b: bool = false; T: type; "
                    "activation: {'', 'Relu', 'Relu6', 'Tanh', 'Sigmoid'} = ''",
           .types = kFloats,
           .shape = fused_matmul_shape,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::fused_matmul_kernel())}});
  ops.add({.name = "_MatMulAdd",
           .signature = "a: T, b: T, sum: T -> total: T",
           .attrs = "transpose_a: bool = false; transpose_b: bool = false; T: type",
           .types = DTypeSet{DType::kFloat},
           .shape = matmul_add_shape,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::matmul_add_kernel())}});
  ops.add({.name = "BatchMatMul",
           .signature = "x: T, y: T -> output: T",
           .attrs = "T: type; adj_x: bool = false; adj_y: bool = false",
           .types = kFloats | kComplexes | kIndexTypes,
           .shape = batch_matmul_shape,
           .grad = batch_matmul_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::batch_matmul_kernel())}});
  ops.add({.name = "BatchMatMulV2",
           .signature = "x: T, y: T -> output: T",
           .attrs = "T: type; adj_x: bool = false; adj_y: bool = false",
           .types = kMatMulTypes | DTypeSet{DType::kInt16},
           .shape = batch_matmul_shape,
           .grad = batch_matmul_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::batch_matmul_kernel())}});
  const std::string narrow = "{bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}";
  ops.add({.name = "BatchMatMulV3",
           .signature = "x: Ta, y: Tb -> output: Tout",
           .attrs = "Ta: " + narrow + "; Tb: " + narrow +
                    "; Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}; "
                    "adj_x: bool = false; adj_y: bool = false",
           .shape = batch_matmul_shape,
           .grad = batch_matmul_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::batch_matmul_kernel())}});
  ops.add({.name = "SparseTensorDenseMatMul",
           .signature = "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
           .attrs = "T: type; Tindices: {int32, int64} = int64; adjoint_a: bool = false; adjoint_b: bool = false",
           .shape = sparse_matmul_shape,
           .grad = sparse_matmul_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::sparse_matmul_kernel(), kNumbers)}});
  internal::add_einsum_ops(ops);
  internal::add_linalg_ops(ops);
}

}  // namespace tutti

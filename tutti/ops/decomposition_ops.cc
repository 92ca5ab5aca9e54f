// Rows of matrix decompositions. Qr makes the orthogonal initial weights of recurrent networks.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/qr.h"
#include "tutti/ops/internal/families.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

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

}  // namespace

void register_decomposition_ops(OpTable& ops) {
  ops.add({.name = "Qr",
           .signature = "input: T -> q: T, r: T",
           .attrs = "full_matrices: bool = false; T: type",
           .types = DTypeSet{DType::kDouble, DType::kFloat, DType::kHalf} | kComplexes,
           .shape = qr_shape,
           .kernels = {TUTTI_CPU(cpu::qr_kernel())}});
}

}  // namespace tutti

// Ops that only the fusing pass makes.

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/fused_elementwise.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

// Operands are of one shape, or scalars.
Status fused_elementwise_shape(ShapeContext& c) {
  PartialShape shape = PartialShape::scalar();
  for (int i = 0; i < c.num_inputs(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(shape, broadcast_shapes(shape, c.input(i)));
  }
  c.set_output(0, shape);
  return {};
}

}  // namespace

void register_fused_ops(OpTable& ops) {
  ops.add({.name = "_FusedElementwise",
           .signature = "inputs: N * T -> output: T",
           .attrs = "T: type; N: int >= 1; ops: list(string) >= 1; operands: list(int)",
           .types = DTypeSet{DType::kFloat, DType::kDouble},
           .shape = fused_elementwise_shape,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::fused_elementwise_kernel())}});
}

}  // namespace tutti

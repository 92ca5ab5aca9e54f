// Conditional accumulators: the gradients of many workers, taken together. Handles are references to a string vector,
// and in the Resource forms (of the dense ones) resources.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/accumulators.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/internal/shard_ops.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

constexpr std::string_view kGradientTypes =
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, "
    "uint16, complex128, half, uint32, uint64}";

void add_accumulator_op(OpTable& ops, std::string name, std::string signature, std::string attrs, KernelFactory kernel,
                        ShapeFn shape = shape::none) {
  KernelEntry entry = TUTTI_CPU(std::move(kernel), kFloats, "dtype");
  ops.add({.name = std::move(name),
           .signature = std::move(signature),
           .attrs = std::move(attrs),
           .shape = std::move(shape),
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {std::move(entry)}});
}

}  // namespace

void register_accumulator_ops(OpTable& ops) {
  const std::string dtype = str_cat("dtype: ", kGradientTypes);
  const std::string maker = dtype +
                            "; shape: shape; container: string = ''; shared_name: string = ''; "
                            "reduction_type: {'MEAN', 'SUM'} = 'MEAN'";
  for (const bool resource : {false, true}) {
    const std::string prefix = resource ? "Resource" : "";
    const std::string type = resource ? "resource" : "Ref(string)";
    const std::string handle = "handle: " + type;
    add_accumulator_op(ops, prefix + "ConditionalAccumulator", "-> " + handle, maker, cpu::accumulator_kernel(),
                       resource ? ShapeFn(shape::scalar) : ShapeFn(internal::two_names));
    add_accumulator_op(ops, prefix + "AccumulatorApplyGradient", handle + ", local_step: int64, gradient: dtype -> ",
                       dtype, cpu::accumulator_apply_kernel());
    add_accumulator_op(ops, prefix + "AccumulatorTakeGradient", handle + ", num_required: int32 -> average: dtype",
                       dtype, cpu::accumulator_take_kernel());
    add_accumulator_op(ops, prefix + "AccumulatorSetGlobalStep", handle + ", new_global_step: int64 -> ", "",
                       kernel_from(cpu::accumulator_set_global_step));
    add_accumulator_op(ops, prefix + "AccumulatorNumAccumulated", handle + " -> num_accumulated: int32", "",
                       kernel_from(cpu::accumulator_num_accumulated), shape::scalar);
  }
  add_accumulator_op(ops, "SparseConditionalAccumulator", "-> handle: Ref(string)", maker,
                     cpu::sparse_accumulator_kernel(), internal::two_names);
  add_accumulator_op(ops, "SparseAccumulatorApplyGradient",
                     "handle: Ref(string), local_step: int64, gradient_indices: int64, gradient_values: dtype, "
                     "gradient_shape: int64 -> ",
                     dtype + "; has_known_shape: bool", cpu::sparse_accumulator_apply_kernel());
  add_accumulator_op(ops, "SparseAccumulatorTakeGradient",
                     "handle: Ref(string), num_required: int32 -> indices: int64, values: dtype, shape: int64", dtype,
                     cpu::accumulator_take_kernel());
  add_shard_ops(ops);
}

}  // namespace tutti

// Ops that TensorFlow lacks: gradients summed in the order of shards, who computes which shard, and the ledger of
// gradients. A claim is an int64 vector {step, shard}. docs/design/0009-strict-replicas.md tells how they are used.
#include "tutti/ops/internal/shard_ops.h"

#include <string>

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/shards.h"

namespace tutti {

namespace {

Status claim_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{2});
  return {};
}

void add_shard_op(OpTable& ops, std::string name, std::string signature, std::string attrs, KernelFactory kernel,
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

void add_accumulators(OpTable& ops) {
  const std::string dtype = "dtype: {half, bfloat16, float, double}";
  const std::string maker =
      dtype + "; shape: shape; num_shards: int >= 1; container: string = ''; shared_name: string = ''";
  const std::string apply = dtype + "; worker: string = ''";
  add_shard_op(ops, "TuttiShardAccumulator", "-> handle: resource", maker, cpu::shard_accumulator_kernel(),
               shape::scalar);
  add_shard_op(ops, "TuttiSparseShardAccumulator", "-> handle: resource", maker, cpu::sparse_shard_accumulator_kernel(),
               shape::scalar);
  add_shard_op(ops, "TuttiShardApplyGradient", "handle: resource, claim: int64, gradient: dtype -> ", apply,
               cpu::shard_apply_kernel());
  add_shard_op(ops, "TuttiSparseShardApplyGradient",
               "handle: resource, claim: int64, indices: int64, values: dtype, shape: int64 -> ", apply,
               cpu::sparse_shard_apply_kernel());
  add_shard_op(ops, "TuttiShardTakeGradient", "handle: resource, step: int64 -> mean: dtype", dtype,
               cpu::shard_take_kernel());
  add_shard_op(ops, "TuttiSparseShardTakeGradient",
               "handle: resource, step: int64 -> indices: int64, values: dtype, shape: int64", dtype,
               cpu::shard_take_kernel());
  add_shard_op(ops, "TuttiShardSetStep", "handle: resource, step: int64 -> ", "", kernel_from(cpu::shard_set_step));
}

void add_board(OpTable& ops) {
  const std::string worker = "worker: string";
  add_shard_op(ops, "TuttiShardBoard", "-> handle: resource",
               "num_shards: int >= 1; lease_ms: int >= 1 = 10000; container: string = ''; shared_name: string = ''",
               cpu::shard_board_kernel(), shape::scalar);
  add_shard_op(ops, "TuttiNextShard", "handle: resource, finished: int64, threads: int64 -> claim: int64", worker,
               cpu::next_shard_kernel(), claim_shape);
  add_shard_op(ops, "TuttiTeamSize", "-> threads: int64", "", kernel_from(cpu::team_size), shape::scalar);
  add_shard_op(ops, "TuttiAttendShards", "handle: resource -> ", worker, cpu::attend_shards_kernel());
  add_shard_op(ops, "TuttiGiveBackShards", "handle: resource -> ", worker, cpu::give_back_shards_kernel());
  add_shard_op(ops, "TuttiOpenShards", "handle: resource, step: int64 -> ", "", kernel_from(cpu::open_shards));
  add_shard_op(ops, "TuttiCloseShards", "handle: resource -> ", "", kernel_from(cpu::close_shards));
}

}  // namespace

void add_shard_ops(OpTable& ops) {
  add_accumulators(ops);
  add_board(ops);
  add_shard_op(ops, "TuttiGradientLedger", "-> workers: string, accumulators: string, counts: int64",
               "container: string = ''", cpu::gradient_ledger_kernel());
}

}  // namespace tutti

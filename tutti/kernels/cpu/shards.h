// Kernels of strict synchronous training: shard accumulators, the board of shards, the gradient ledger. A claim is a
// vector {step, shard}. What may have to wait is asynchronous.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The ops that make an accumulator. Attributes dtype, shape, num_shards, container, shared_name.
KernelFactory shard_accumulator_kernel();
KernelFactory sparse_shard_accumulator_kernel();
// handle, claim, gradient (or indices, values, shape); attribute worker.
KernelFactory shard_apply_kernel();
KernelFactory sparse_shard_apply_kernel();
// handle, step -> the parts of the mean.
KernelFactory shard_take_kernel();
// handle, step
Status shard_set_step(KernelContext& ctx);

// The op that makes a board. Attributes num_shards, lease_ms, container, shared_name.
KernelFactory shard_board_kernel();
// handle, finished -> claim; attribute worker.
KernelFactory next_shard_kernel();
// handle; attribute worker.
KernelFactory attend_shards_kernel();
KernelFactory give_back_shards_kernel();
// handle, step
Status open_shards(KernelContext& ctx);
// How many threads one kernel may use here.
Status team_size(KernelContext& ctx);
// handle
Status close_shards(KernelContext& ctx);

// -> workers, accumulators, counts [n, 3]: applied, stale, retried. Attribute container.
KernelFactory gradient_ledger_kernel();

}  // namespace tutti::cpu

// Staging areas and barriers: where steps leave values for each other, beside queues.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/barriers.h"
#include "tutti/kernels/cpu/staging.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

void add_stages(OpTable& ops) {
  const auto add = [&](const char* name, const char* signature, const char* dtypes, KernelFactory kernel,
                       ShapeFn shape = shape::none) {
    ops.add({.name = name,
             .signature = signature,
             .attrs = str_cat("capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; ", dtypes,
                              "; container: string = ''; shared_name: string = ''"),
             .shape = std::move(shape),
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(std::move(kernel))}});
  };
  const char* some = "dtypes: list(type) >= 1";
  const char* any = "dtypes: list(type)";
  add("Stage", "values: dtypes ->", some, cpu::stage_kernel());
  add("Unstage", "-> values: dtypes", some, cpu::unstage_kernel());
  add("StagePeek", "index: int32 -> values: dtypes", some, cpu::stage_peek_kernel());
  add("StageSize", "-> size: int32", any, cpu::stage_size_kernel(), shape::scalar);
  add("StageClear", "->", any, cpu::stage_clear_kernel());
}

void add_barriers(OpTable& ops) {
  const auto add = [&](const char* name, const char* signature, const char* attrs, KernelFactory kernel,
                       ShapeFn shape = shape::none) {
    ops.add({.name = name,
             .signature = signature,
             .attrs = attrs,
             .shape = std::move(shape),
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(std::move(kernel))}});
  };
  add("Barrier", "-> handle: Ref(string)",
      "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ''; "
      "shared_name: string = ''",
      cpu::barrier_kernel(), internal::two_names);
  add("BarrierInsertMany", "handle: Ref(string), keys: string, values: T ->", "T: type; component_index: int",
      cpu::barrier_insert_many_kernel());
  add("BarrierTakeMany",
      "handle: Ref(string), num_elements: int32 -> indices: int64, keys: string, "
      "values: component_types",
      "component_types: list(type) >= 1; allow_small_batch: bool = false; wait_for_incomplete: bool = false; "
      "timeout_ms: int = -1",
      cpu::barrier_take_many_kernel());
  add("BarrierClose", "handle: Ref(string) ->", "cancel_pending_enqueues: bool = false", cpu::barrier_close_kernel());
  add("BarrierReadySize", "handle: Ref(string) -> size: int32", "", kernel_from(cpu::barrier_ready_size),
      shape::scalar);
  add("BarrierIncompleteSize", "handle: Ref(string) -> size: int32", "", kernel_from(cpu::barrier_incomplete_size),
      shape::scalar);
}

}  // namespace

void register_staging_ops(OpTable& ops) {
  add_stages(ops);
  add_barriers(ops);
}

}  // namespace tutti

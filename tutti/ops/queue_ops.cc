// Queues between steps.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/queues.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

OpRow queue_row(std::string name, std::string signature, std::string attrs, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = shape::none,
          .no_gradient = true,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

}  // namespace

void register_queue_ops(OpTable& ops) {
  ops.add({.name = "FIFOQueueV2",
           .signature = "-> handle: resource",
           .attrs = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
                    "container: string = ''; shared_name: string = ''",
           .shape = shape::scalar,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::fifo_queue_kernel())}});

  const std::string enqueue = "handle: resource, components: Tcomponents ->";
  const std::string enqueue_attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1";
  ops.add(queue_row("QueueEnqueueV2", enqueue, enqueue_attrs, cpu::queue_enqueue_kernel()));
  ops.add(queue_row("QueueEnqueueManyV2", enqueue, enqueue_attrs, cpu::queue_enqueue_many_kernel()));

  const std::string dequeue_many = "handle: resource, n: int32 -> components: component_types";
  const std::string dequeue_attrs = "component_types: list(type) >= 1; timeout_ms: int = -1";
  ops.add(queue_row("QueueDequeueV2", "handle: resource -> components: component_types", dequeue_attrs,
                    cpu::queue_dequeue_kernel()));
  ops.add(queue_row("QueueDequeueManyV2", dequeue_many, dequeue_attrs, cpu::queue_dequeue_many_kernel()));
  ops.add(queue_row("QueueDequeueUpToV2", dequeue_many, dequeue_attrs, cpu::queue_dequeue_up_to_kernel()));

  ops.add(queue_row("QueueCloseV2", "handle: resource ->", "cancel_pending_enqueues: bool = false",
                    cpu::queue_close_kernel()));
  OpRow size = queue_row("QueueSizeV2", "handle: resource -> size: int32", "", kernel_from(cpu::queue_size));
  size.shape = shape::scalar;
  ops.add(std::move(size));
  OpRow is_closed =
      queue_row("QueueIsClosedV2", "handle: resource -> is_closed: bool", "", kernel_from(cpu::queue_is_closed));
  is_closed.shape = shape::scalar;
  ops.add(std::move(is_closed));
}

}  // namespace tutti

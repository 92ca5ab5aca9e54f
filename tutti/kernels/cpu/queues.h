// Kernels of queues. Those that may have to wait are asynchronous.
#pragma once

#include "tutti/kernels/kernel.h"
#include "tutti/kernels/resources/queue.h"

namespace tutti::cpu {

// The op that makes a queue. Attributes component_types, shapes, capacity, container, shared_name; where the op has
// them min_after_dequeue, seed, seed2.
KernelFactory queue_kernel(QueueKind kind);
KernelFactory queue_enqueue_kernel();
KernelFactory queue_enqueue_many_kernel();
KernelFactory queue_dequeue_kernel();
KernelFactory queue_dequeue_many_kernel();
KernelFactory queue_dequeue_up_to_kernel();
KernelFactory queue_close_kernel();
Status queue_size(KernelContext& ctx);
Status queue_is_closed(KernelContext& ctx);

}  // namespace tutti::cpu

// Kernels of queues. Those that may have to wait are asynchronous.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory fifo_queue_kernel();
KernelFactory queue_enqueue_kernel();
KernelFactory queue_enqueue_many_kernel();
KernelFactory queue_dequeue_kernel();
KernelFactory queue_dequeue_many_kernel();
KernelFactory queue_dequeue_up_to_kernel();
KernelFactory queue_close_kernel();
Status queue_size(KernelContext& ctx);
Status queue_is_closed(KernelContext& ctx);

}  // namespace tutti::cpu

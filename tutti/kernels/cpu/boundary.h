// Kernels at the edges of graphs: constants, placeholders, pass-throughs, checks, and the two ends of a cut edge.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status no_op(KernelContext& ctx);
// Output i is input i, sharing memory: that of a variable where the input is read through a reference.
Status identity(KernelContext& ctx);

// Output 0 is input 0 in memory of its own.
Status deep_copy(KernelContext& ctx);

KernelFactory const_kernel();
// Fails: a placeholder that runs was not fed.
KernelFactory placeholder_kernel();
KernelFactory check_numerics_kernel();
// Tells the signs of infinities.
KernelFactory check_numerics_v2_kernel();
KernelFactory assert_kernel();
// Attributes tensor_name, send_device, send_device_incarnation, recv_device and the place in loops, which is the same
// at both ends, give the key (core/rendezvous_key.h).
KernelFactory send_kernel();
KernelFactory recv_kernel();

}  // namespace tutti::cpu

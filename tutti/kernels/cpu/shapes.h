// Kernels that read or change shapes and leave elements where they are.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status shape_of(KernelContext& ctx);  // Shape and ShapeN: output i is the shape of input i
Status size_of(KernelContext& ctx);
Status rank_of(KernelContext& ctx);
Status reshape(KernelContext& ctx);
Status expand_dims(KernelContext& ctx);
KernelFactory squeeze_kernel();
KernelFactory ensure_shape_kernel();
KernelFactory bitcast_kernel();

Status invert_permutation(KernelContext& ctx);
Status concat_offset(KernelContext& ctx);
Status broadcast_args(KernelContext& ctx);
Status broadcast_gradient_args(KernelContext& ctx);

}  // namespace tutti::cpu

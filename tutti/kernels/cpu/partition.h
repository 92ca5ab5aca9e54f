// Kernels that find elements, tell them apart, or deal rows out and collect them again.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

Status where(KernelContext& ctx);
Status unique(KernelContext& ctx);
Status dynamic_partition(KernelContext& ctx);
Status dynamic_stitch(KernelContext& ctx);

}  // namespace tutti::cpu

// Kernels that turn sparse tensors into strings or variants, three for each tensor, and back.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::internal {

Status serialize_sparse(KernelContext& ctx);
Status serialize_many_sparse(KernelContext& ctx);
Status deserialize_sparse(KernelContext& ctx);
Status deserialize_many_sparse(KernelContext& ctx);  // a matrix

}  // namespace tutti::internal

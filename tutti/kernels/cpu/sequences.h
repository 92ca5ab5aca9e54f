// Kernels that turn parts of dimensions around.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs input, seq_lengths; attributes seq_dim, batch_dim: turns around the first seq_lengths[b] elements along
// seq_dim, where b is the place along batch_dim.
KernelFactory reverse_sequence_kernel();
// Inputs input, shift, axis: what leaves a dimension at its end comes in again at its beginning.
Status roll(KernelContext& ctx);

}  // namespace tutti::cpu
